package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// Places in a partition for ListOffsets; other values are timestamps.
const (
	// Earliest is the log start.
	Earliest int64 = -2
	// Latest is the high watermark.
	Latest int64 = -1
	// LastStable is where a read_committed reader is at the end.
	LastStable int64 = -100
)

// ListOffsets returns for each partition its Earliest, Latest or LastStable
// offset, or the first offset whose record has at least the timestamp at
// (milliseconds); the end if there is none.
func (a *Admin) ListOffsets(ctx context.Context, at int64, tps ...ids.TopicPartition) (map[ids.TopicPartition]int64, error) {
	out, err := a.listOffsets(ctx, at, tps)
	if err != nil || at < 0 {
		return out, err
	}
	var behind []ids.TopicPartition
	for _, tp := range tps {
		if out[tp] < 0 { // no such record
			behind = append(behind, tp)
		}
	}
	ends, err := a.listOffsets(ctx, Latest, behind)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, ends)
	return out, nil
}

func (a *Admin) listOffsets(ctx context.Context, at int64, tps []ids.TopicPartition) (map[ids.TopicPartition]int64, error) {
	out := make(map[ids.TopicPartition]int64, len(tps))
	iso := sarama.ReadUncommitted
	if at == LastStable {
		at, iso = Latest, sarama.ReadCommitted
	}
	err := a.byLeader(ctx, "list offsets of", tps, func(n node, tps []ids.TopicPartition) (map[ids.TopicPartition]error, error) {
		res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.OffsetResponse, error) {
			req := sarama.NewOffsetRequest(sarama.MaxVersion)
			req.IsolationLevel = iso
			for _, tp := range tps {
				req.AddBlock(tp.Topic, tp.Partition, at, 1)
			}
			return b.GetAvailableOffsets(req)
		})
		if err != nil {
			return nil, err
		}
		errs := map[ids.TopicPartition]error{}
		for _, tp := range tps {
			switch block := res.GetBlock(tp.Topic, tp.Partition); {
			case block == nil:
				errs[tp] = &transportError{node: n, err: sarama.ErrIncompleteResponse}
			case block.Err != sarama.ErrNoError:
				errs[tp] = block.Err
			default:
				out[tp] = block.Offset
			}
		}
		return errs, nil
	})
	return out, err
}

// FetchOffsets reads the group's committed offsets; a partition without one is
// absent. Offsets that an undecided transaction holds (code 88) are waited for
// until ctx ends (R28).
func (a *Admin) FetchOffsets(ctx context.Context, group string, tps ...ids.TopicPartition) (map[ids.TopicPartition]Offset, error) {
	return a.fetchOffsets(ctx, group, true, tps)
}

// LastOffsets is FetchOffsets without the wait: what undecided transactions hold
// is not in it yet.
func (a *Admin) LastOffsets(ctx context.Context, group string, tps ...ids.TopicPartition) (map[ids.TopicPartition]Offset, error) {
	return a.fetchOffsets(ctx, group, false, tps)
}

func (a *Admin) fetchOffsets(ctx context.Context, group string, stable bool, tps []ids.TopicPartition) (map[ids.TopicPartition]Offset, error) {
	out := map[ids.TopicPartition]Offset{}
	if len(tps) == 0 {
		return out, nil
	}
	parts := map[string][]int32{}
	for _, tp := range tps {
		parts[tp.Topic] = append(parts[tp.Topic], tp.Partition)
	}
	var at ids.TopicPartition
	err := retry(ctx, retriable, func() error {
		at = ids.TopicPartition{}
		res, err := atCoordinator(ctx, a.pool, a.coords, group, func(b *sarama.Broker) (*sarama.OffsetFetchResponse, sarama.KError, error) {
			req := sarama.NewOffsetFetchRequest(sarama.MaxVersion, group, parts)
			req.RequireStable = stable
			r, err := b.FetchOffset(req)
			if err != nil {
				return nil, 0, err
			}
			if k := r.GroupError(); k != sarama.ErrNoError {
				return r, k, nil
			}
			return r, r.Err, nil
		})
		if errors.Is(err, sarama.ErrGroupIDNotFound) {
			clear(out)
			return nil
		}
		if err != nil {
			return err
		}
		for _, tp := range tps {
			block := res.GetGroupBlock(group, tp.Topic, tp.Partition)
			if block == nil {
				block = res.GetBlock(tp.Topic, tp.Partition)
			}
			switch {
			case block == nil, block.Err == sarama.ErrNoError && block.Offset < 0:
				delete(out, tp)
			case block.Err != sarama.ErrNoError:
				at = tp
				return block.Err
			default:
				out[tp] = Offset{TP: tp, Offset: block.Offset, Metadata: block.Metadata}
			}
		}
		return nil
	})
	if err != nil {
		return nil, newError(fmt.Sprintf("fetch offsets of group %q", group), at, err)
	}
	return out, nil
}

// CommitOffsets writes offsets outside a transaction. Kafka takes them from a
// member of the present generation; without one (the zero Membership) only
// while the group has no members, and answers UNKNOWN_MEMBER_ID otherwise. With
// members a transaction can write them: Transactions.CommitOffsets.
func (a *Admin) CommitOffsets(ctx context.Context, group string, member Membership, offsets []Offset) error {
	if len(offsets) == 0 {
		return nil
	}
	var at ids.TopicPartition
	err := retry(ctx, retriable, func() error {
		at = ids.TopicPartition{}
		res, err := atCoordinator(ctx, a.pool, a.coords, group, func(b *sarama.Broker) (*sarama.OffsetCommitResponse, sarama.KError, error) {
			req := &sarama.OffsetCommitRequest{Version: 8, ConsumerGroup: group, ConsumerGroupGeneration: -1}
			if member != (Membership{}) {
				req.ConsumerGroupGeneration, req.ConsumerID = member.Generation, member.MemberID
			}
			for _, o := range offsets {
				req.AddBlockWithLeaderEpoch(o.TP.Topic, o.TP.Partition, o.Offset, -1, 0, o.Metadata)
			}
			r, err := b.CommitOffset(req)
			return r, 0, err
		})
		if err != nil {
			return err
		}
		var first error
		for _, o := range offsets {
			k := res.Errors[o.TP.Topic][o.TP.Partition]
			if k != sarama.ErrNoError && (first == nil || retriable(first)) {
				at, first = o.TP, k
			}
		}
		if first != nil && needsCoordinator(first) {
			a.coords.forget(group)
		}
		return first
	})
	if err != nil {
		return newError(fmt.Sprintf("commit offsets of group %q", group), at, err)
	}
	return nil
}

// DeleteRecords trims each partition below its offset. Repeating it, or trimming
// below what is gone already, does nothing.
func (a *Admin) DeleteRecords(ctx context.Context, below map[ids.TopicPartition]int64) error {
	tps := slices.SortedFunc(maps.Keys(below), ids.TopicPartition.Compare)
	return a.byLeader(ctx, "delete records of", tps, func(n node, tps []ids.TopicPartition) (map[ids.TopicPartition]error, error) {
		topics := map[string]*sarama.DeleteRecordsRequestTopic{}
		for _, tp := range tps {
			t := topics[tp.Topic]
			if t == nil {
				t = &sarama.DeleteRecordsRequestTopic{PartitionOffsets: map[int32]int64{}}
				topics[tp.Topic] = t
			}
			t.PartitionOffsets[tp.Partition] = below[tp]
		}
		res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.DeleteRecordsResponse, error) {
			return b.DeleteRecords(&sarama.DeleteRecordsRequest{Version: 2, Topics: topics, Timeout: adminTimeout})
		})
		if err != nil {
			return nil, err
		}
		errs := map[ids.TopicPartition]error{}
		for _, tp := range tps {
			t := res.Topics[tp.Topic]
			if t == nil || t.Partitions[tp.Partition] == nil {
				errs[tp] = &transportError{node: n, err: sarama.ErrIncompleteResponse}
			} else if k := t.Partitions[tp.Partition].Err; k != sarama.ErrNoError {
				errs[tp] = k
			}
		}
		return errs, nil
	})
}

// GroupDescription is the coordinator's view of a group.
type GroupDescription struct {
	// State is Empty, PreparingRebalance, CompletingRebalance, Stable or Dead
	// (no such group).
	State, ProtocolType, Protocol string
	// Members are ordered by id.
	Members []GroupMember
}

// GroupMember is a member as the coordinator sees it.
type GroupMember struct {
	MemberID, ClientID, Host string
	// UserData is what the member sent when it joined, Assignment what the
	// plan gave it. nil where they are not of our protocol.
	UserData, Assignment []byte
}

// DescribeGroup reads a group and its members.
func (a *Admin) DescribeGroup(ctx context.Context, group string) (GroupDescription, error) {
	var d *sarama.GroupDescription
	err := retry(ctx, retriable, func() error {
		res, err := atCoordinator(ctx, a.pool, a.coords, group, func(b *sarama.Broker) (*sarama.DescribeGroupsResponse, sarama.KError, error) {
			r, err := b.DescribeGroups(&sarama.DescribeGroupsRequest{Version: 5, Groups: []string{group}})
			if err != nil {
				return nil, 0, err
			}
			if len(r.Groups) != 1 {
				return nil, 0, sarama.ErrIncompleteResponse
			}
			return r, r.Groups[0].Err, nil
		})
		if err == nil {
			d = res.Groups[0]
		}
		return err
	})
	if err != nil {
		return GroupDescription{}, newError(fmt.Sprintf("describe group %q", group), ids.TopicPartition{}, err)
	}
	out := GroupDescription{State: d.State, ProtocolType: d.ProtocolType, Protocol: d.Protocol}
	for _, id := range slices.Sorted(maps.Keys(d.Members)) {
		m := d.Members[id]
		g := GroupMember{MemberID: id, ClientID: m.ClientId, Host: strings.TrimPrefix(m.ClientHost, "/")}
		if meta, err := m.GetMemberMetadata(); err == nil && meta != nil {
			g.UserData = meta.UserData
		}
		if as, err := m.GetMemberAssignment(); err == nil && as != nil {
			g.Assignment = as.UserData
		}
		out.Members = append(out.Members, g)
	}
	return out, nil
}
