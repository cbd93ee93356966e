package measure

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	valueBytes   = 100
	preloadBatch = 8_000 // records of 108 bytes, below 1 MiB
)

// Preload fills a topic with records of a random 8-byte key and a 100-byte
// value, spread evenly over the partitions. The bytes depend on seed only.
func Preload(ctx context.Context, client sarama.Client, topic string, records int64, seed uint64) error {
	partitions, err := client.Partitions(topic)
	if err != nil {
		return fmt.Errorf("partitions of %s: %w", topic, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, p := range partitions {
		share := records / int64(len(partitions))
		if int64(i) < records%int64(len(partitions)) {
			share++
		}
		wg.Go(func() {
			if err := preloadPartition(ctx, client, topic, p, share, seed, cancel); err != nil {
				cancel(fmt.Errorf("preload %s-%d: %w", topic, p, err))
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func preloadPartition(ctx context.Context, client sarama.Client, topic string, p int32, records int64, seed uint64, cancel context.CancelCauseFunc) error {
	leader, err := client.Leader(topic, p)
	if err != nil {
		return err
	}
	broker := sarama.NewBroker(leader.Addr())
	if err := broker.Open(client.Config()); err != nil {
		return err
	}
	defer broker.Close()
	r := rand.New(rand.NewPCG(seed, uint64(p)))
	var answers sync.WaitGroup
	defer answers.Wait()
	for records > 0 && ctx.Err() == nil {
		n := min(records, preloadBatch)
		records -= n
		req := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 30_000}
		req.AddBatch(topic, p, randomBatch(r, int(n)))
		answers.Add(1)
		err := broker.AsyncProduce(req, func(resp *sarama.ProduceResponse, err error) {
			defer answers.Done()
			if err == nil && resp.Blocks[topic][p].Err != sarama.ErrNoError {
				err = resp.Blocks[topic][p].Err
			}
			if err != nil {
				cancel(fmt.Errorf("preload %s-%d: %w", topic, p, err))
			}
		})
		if err != nil {
			answers.Done()
			return err
		}
	}
	return nil
}

func randomBatch(r *rand.Rand, n int) *sarama.RecordBatch {
	now := time.Now()
	b := &sarama.RecordBatch{
		Version: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, PartitionLeaderEpoch: -1,
	}
	data := make([]byte, n*(8+valueBytes)+7)
	for i := 0; i+8 <= len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	records := make([]sarama.Record, n)
	b.Records = make([]*sarama.Record, n)
	for i := range records {
		from := i * (8 + valueBytes)
		records[i] = sarama.Record{Key: data[from : from+8], Value: data[from+8 : from+8+valueBytes], OffsetDelta: int64(i)}
		b.Records[i] = &records[i]
	}
	return b
}
