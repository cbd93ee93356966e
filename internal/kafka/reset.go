package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/internal/ids"
)

// ListTopics returns the names of all topics, in order.
func (a *Admin) ListTopics(ctx context.Context) ([]string, error) {
	var names []string
	err := retry(ctx, retriable, func() error {
		res, err := anyBroker(ctx, a.c.meta, func(b *sarama.Broker) (*sarama.MetadataResponse, error) {
			return b.GetMetadata(sarama.NewMetadataRequest(sarama.MaxVersion, nil))
		})
		if err != nil {
			return err
		}
		names = names[:0]
		for _, t := range res.Topics {
			names = append(names, t.Name)
		}
		return nil
	})
	if err != nil {
		return nil, newError("list topics", ids.TopicPartition{}, err)
	}
	slices.Sort(names)
	return names, nil
}

// ListGroups returns the names of all consumer groups that the client may
// describe, in order. Each broker knows those that it coordinates.
func (a *Admin) ListGroups(ctx context.Context) ([]string, error) {
	var names []string
	err := retry(ctx, retriable, func() error {
		if _, err := a.controller(ctx); err != nil { // learns the brokers
			return err
		}
		a.c.meta.mu.Lock()
		nodes := slices.Collect(maps.Values(a.c.meta.nodes))
		a.c.meta.mu.Unlock()
		names = names[:0]
		for _, n := range nodes {
			res, err := request(ctx, a.pool, n, func(b *sarama.Broker) (*sarama.ListGroupsResponse, error) {
				return b.ListGroups(&sarama.ListGroupsRequest{Version: 2})
			})
			if err == nil {
				err = codeError(res.Err)
			}
			if err != nil {
				return err
			}
			names = slices.AppendSeq(names, maps.Keys(res.Groups))
		}
		return nil
	})
	if err != nil {
		return nil, newError("list groups", ids.TopicPartition{}, err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// DeleteGroup deletes a consumer group with its offsets. One that is not there is
// no error; one with members is.
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	err := retry(ctx, retriable, func() error {
		_, err := atCoordinator(ctx, a.pool, a.coords, group, func(b *sarama.Broker) (*sarama.DeleteGroupsResponse, sarama.KError, error) {
			req := &sarama.DeleteGroupsRequest{Version: 2}
			req.AddGroup(group)
			r, err := b.DeleteGroups(req)
			if err != nil {
				return nil, 0, err
			}
			return r, r.GroupErrorCodes[group], nil
		})
		return err
	})
	switch {
	case err == nil, errors.Is(err, sarama.ErrGroupIDNotFound):
		return nil
	case errors.Is(err, sarama.ErrNonEmptyGroup):
		err = fmt.Errorf("it has members: stop all instances first: %w", err)
	}
	return newError(fmt.Sprintf("delete group %q", group), ids.TopicPartition{}, err)
}
