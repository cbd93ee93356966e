package integration

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/integration/servers"
	"github.com/tidegate/tidegate/internal/ids"
	"github.com/tidegate/tidegate/internal/kafka"
	"github.com/tidegate/tidegate/internal/testkit"
)

// TestFaultForgottenProducers is the fact that ProducerOptions.Once rests on: a
// broker that starts again does not know a producer id whose last batch has a
// timestamp older than producer.id.expiration.ms, and writes a repeated batch
// twice; a young one it recognizes. Real Kafka, killed with SIGKILL.
func TestFaultForgottenProducers(t *testing.T) {
	onlyMakeFaults(t)
	for name, c := range map[string]struct {
		age  time.Duration
		want int
	}{"young": {0, 1}, "old": {48 * time.Hour, 2}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			server := servers.RequireOwnKafka(t, servers.KafkaOptions{})
			client, err := testkit.Dial(server.Brokers()...)
			require.NoError(t, err)
			defer client.Close()
			require.NoError(t, client.CreateTopics(ctx, 1, "t"))
			id, epoch, err := client.K.Transactions().InitProducer(ctx)
			require.NoError(t, err)
			stamp := time.Now().Add(-c.age).UnixMilli()
			write := func() { // each time with the first sequence number
				w := client.K.NewWriter(kafka.WriterConfig{})
				defer func() { _ = w.Close() }()
				p := w.NewProducer(kafka.ProducerOptions{ID: id, Epoch: epoch})
				b := w.NewBatch(ids.TopicPartition{Topic: "t"})
				b.Append(nil, []byte("v"), nil, stamp)
				p.Enqueue(b, kafka.Token{})
				require.NoError(t, p.Wait(ctx))
			}
			write()
			write() // is recognized, whatever its age
			require.NoError(t, server.Kill(ctx))
			require.NoError(t, server.Start(ctx))
			write()
			tp := ids.TopicPartition{Topic: "t"}
			ends, err := client.K.Admin().ListOffsets(ctx, kafka.Latest, tp)
			require.NoError(t, err)
			require.EqualValues(t, c.want, ends[tp])
		})
	}
}
