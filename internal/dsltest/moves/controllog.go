package moves

import (
	"context"

	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
)

// ControlLog returns the first offset of the application's control log and the
// one behind its last record.
func (f *Fleet) ControlLog(ctx context.Context) (start, end int64, err error) {
	tp := ids.TopicPartition{Topic: f.opts.App + "-control"}
	first, err := f.client.K.Admin().ListOffsets(ctx, kafka.Earliest, tp)
	if err != nil {
		return 0, 0, err
	}
	last, err := f.client.K.Admin().ListOffsets(ctx, kafka.Latest, tp)
	return first[tp], last[tp], err
}
