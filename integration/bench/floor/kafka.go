package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
)

const (
	fetchBytes   = 1 << 20 // per partition and request
	batchRecords = 16_384
	batchBytes   = 960_000 // below the default max.message.bytes of 1 MiB
	openRequests = 5       // what a broker allows an idempotent producer
)

// handler takes one record; key and value are valid until the next flush.
type handler func(partition int32, key, value []byte) error

// cluster is where the topics are.
type cluster struct {
	config *sarama.Config
	client sarama.Client
}

func connect(brokers []string) (*cluster, error) {
	metrics.UseNilMetrics = true
	c := sarama.NewConfig()
	c.ClientID = "floor"
	c.Version = sarama.V3_6_0_0
	c.Net.MaxOpenRequests = openRequests
	client, err := sarama.NewClient(brokers, c)
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", brokers, err)
	}
	return &cluster{config: c, client: client}, nil
}

// leaders returns a new connection per leader of a topic, with its partitions.
func (c *cluster) leaders(topic string) (map[*sarama.Broker][]int32, int, error) {
	partitions, err := c.client.Partitions(topic)
	if err != nil {
		return nil, 0, fmt.Errorf("partitions of %s: %w", topic, err)
	}
	byID := map[int32]*sarama.Broker{}
	out := map[*sarama.Broker][]int32{}
	for _, p := range partitions {
		leader, err := c.client.Leader(topic, p)
		if err != nil {
			return nil, 0, fmt.Errorf("leader of %s-%d: %w", topic, p, err)
		}
		own := byID[leader.ID()]
		if own == nil {
			own = sarama.NewBroker(leader.Addr())
			if err := own.Open(c.config); err != nil {
				return nil, 0, fmt.Errorf("open %s: %w", leader.Addr(), err)
			}
			byID[leader.ID()] = own
		}
		out[own] = append(out[own], p)
	}
	return out, len(partitions), nil
}

// each calls handle for every record of the topic and flush after every
// response, in one goroutine, while the next response is being fetched.
func (c *cluster) each(ctx context.Context, topic string, handle handler, flush func() error) error {
	leaders, _, err := c.leaders(topic)
	if err != nil {
		return err
	}
	responses := make(chan *sarama.FetchResponse)
	failed := make(chan error, len(leaders))
	for broker, partitions := range leaders {
		go func() { failed <- fetch(ctx, broker, topic, partitions, responses) }()
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case r := <-responses:
			for partition, block := range r.Blocks[topic] {
				for _, set := range block.RecordsSet {
					for _, rec := range set.RecordBatch.Records {
						if err := handle(partition, rec.Key, rec.Value); err != nil {
							return err
						}
					}
				}
			}
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// fetch reads partitions from their start, for ever.
func fetch(ctx context.Context, broker *sarama.Broker, topic string, partitions []int32, out chan<- *sarama.FetchResponse) error {
	next := map[int32]int64{}
	for ctx.Err() == nil {
		req := &sarama.FetchRequest{Version: 11, MaxWaitTime: 100, MinBytes: 1, MaxBytes: int32(len(partitions)) * fetchBytes, SessionEpoch: -1}
		for _, p := range partitions {
			req.AddBlock(topic, p, next[p], fetchBytes, -1)
		}
		resp, err := broker.Fetch(req)
		if err != nil {
			return fmt.Errorf("fetch %s: %w", topic, err)
		}
		records := 0
		for p, block := range resp.Blocks[topic] {
			if block.Err != sarama.ErrNoError {
				return fmt.Errorf("fetch %s-%d: %w", topic, p, block.Err)
			}
			for _, set := range block.RecordsSet {
				next[p] = set.RecordBatch.LastOffset() + 1
				records += len(set.RecordBatch.Records)
			}
		}
		if records == 0 {
			continue
		}
		select {
		case out <- resp:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// producer builds one batch per partition and sends them together.
type producer struct {
	topic    string
	pid      int64
	parts    []*partition
	byLeader map[*sarama.Broker][]int32
	cancel   context.CancelCauseFunc
}

type partition struct {
	leader  *sarama.Broker
	batch   sarama.RecordBatch
	records []sarama.Record // what batch points to, used again after each send
	numbers []byte
	bytes   int
	seq     int32
}

func (c *cluster) newProducer(topic string, cancel context.CancelCauseFunc) (*producer, error) {
	leaders, n, err := c.leaders(topic)
	if err != nil {
		return nil, err
	}
	p := &producer{topic: topic, byLeader: leaders, cancel: cancel, parts: make([]*partition, n)}
	var first *sarama.Broker
	for broker, partitions := range leaders {
		first = broker
		for _, id := range partitions {
			p.parts[id] = &partition{leader: broker, records: make([]sarama.Record, batchRecords), numbers: make([]byte, 8*batchRecords)}
			p.parts[id].batch.Records = make([]*sarama.Record, 0, batchRecords)
		}
	}
	if p.pid, err = producerID(first); err != nil {
		return nil, fmt.Errorf("producer id for %s: %w", topic, err)
	}
	return p, nil
}

// producerID asks again while a broker that just started loads its state.
func producerID(broker *sarama.Broker) (int64, error) {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		resp, err := broker.InitProducerID(&sarama.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1})
		switch {
		case err != nil:
			return 0, err
		case resp.Err == sarama.ErrNoError:
			return resp.ProducerID, nil
		case time.Now().After(deadline):
			return 0, resp.Err
		}
	}
}

// number returns n in eight bytes that live until the partition's next send.
func (p *producer) number(id int32, n uint64) []byte {
	part := p.parts[id]
	i := 8 * len(part.batch.Records)
	b := part.numbers[i : i+8 : i+8]
	binary.BigEndian.PutUint64(b, n)
	return b
}

// add appends a record, sending the batch first where it is full.
func (p *producer) add(id int32, key, value []byte) error {
	part := p.parts[id]
	n := len(part.batch.Records)
	r := &part.records[n]
	r.Key, r.Value, r.OffsetDelta = key, value, int64(n)
	part.batch.Records = append(part.batch.Records, r)
	part.bytes += len(key) + len(value) + 12
	if n+1 == batchRecords || part.bytes >= batchBytes {
		return p.send(part.leader, id)
	}
	return nil
}

// flush sends what there is.
func (p *producer) flush() error {
	for leader, ids := range p.byLeader {
		if err := p.send(leader, ids...); err != nil {
			return err
		}
	}
	return nil
}

// send writes the batches of some partitions of one leader. The request is
// encoded before AsyncProduce returns, so the records can be used again.
func (p *producer) send(leader *sarama.Broker, ids ...int32) error {
	req := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 30_000}
	now := time.Now()
	empty := true
	for _, id := range ids {
		part := p.parts[id]
		n := len(part.batch.Records)
		if n == 0 {
			continue
		}
		empty = false
		records := part.batch.Records
		req.AddBatch(p.topic, id, &sarama.RecordBatch{
			Version: 2, Records: records, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
			ProducerID: p.pid, FirstSequence: part.seq, PartitionLeaderEpoch: -1,
		})
		part.seq = int32((int64(part.seq) + int64(n)) & 0x7fffffff)
		part.batch.Records, part.bytes = records[:0], 0
	}
	if empty {
		return nil
	}
	if err := leader.AsyncProduce(req, p.answered); err != nil {
		return fmt.Errorf("produce to %s: %w", p.topic, err)
	}
	return nil
}

func (p *producer) answered(resp *sarama.ProduceResponse, err error) {
	if err != nil {
		p.cancel(fmt.Errorf("produce to %s: %w", p.topic, err))
		return
	}
	for id, block := range resp.Blocks[p.topic] {
		if block.Err != sarama.ErrNoError {
			p.cancel(fmt.Errorf("produce to %s-%d: %w", p.topic, id, block.Err))
		}
	}
}
