package transactions

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
)

// TransactionalID returns the k-th transactional id of an instance:
// "application-life-instance-k". No other instance ever uses it, because the
// instance id holds a number drawn at its start (R20).
func TransactionalID(application string, life ids.Life, instance ids.InstanceID, k int) string {
	return fmt.Sprintf("%s-%s-%s-%d", application, life, instance, k)
}

// OffsetMetadata returns the metadata that tidegate's group offsets carry:
// "life/checkpoint" (R18). R28 compares it with the control log at a start.
func OffsetMetadata(life ids.Life, n ids.CheckpointID) string {
	return life.String() + "/" + strconv.FormatInt(int64(n), 10)
}

// ParseOffsetMetadata is the inverse of OffsetMetadata. ok is false for
// metadata that somebody else wrote.
func ParseOffsetMetadata(s string) (life ids.Life, n ids.CheckpointID, ok bool) {
	l, c, found := strings.Cut(s, "/")
	if !found {
		return 0, 0, false
	}
	life, err := ids.ParseLife(l)
	if err != nil {
		return 0, 0, false
	}
	v, err := strconv.ParseInt(c, 10, 64)
	if err != nil || v < 0 || OffsetMetadata(life, ids.CheckpointID(v)) != s {
		return 0, 0, false
	}
	return life, ids.CheckpointID(v), true
}
