package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/tidegate/tidegate/integration/servers"
)

// TestFetchInsideBatchReturnsIt: what ADR 0001 rests on. Records inherit the channel
// header of the first data record of their batch, so a reader whose position is inside a
// batch must get the batch from its start: also when its first records were purged, and
// from a broker that has read its log again.
func TestFetchInsideBatchReturnsIt(t *testing.T) {
	k := servers.RequireOwnKafka(t, servers.KafkaOptions{})
	const topic, size = "batched", 10
	if err := k.CreateTopic(t.Context(), topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		produceBatch(t, k, topic, size)
	}
	check := func(when string, offset, first int64) {
		t.Helper()
		batch := fetchBatch(t, k, topic, offset)
		if batch.FirstOffset != first || len(batch.Records) != size {
			t.Errorf("%s: fetch at %d begins with a batch at %d of %d records, want %d of %d",
				when, offset, batch.FirstOffset, len(batch.Records), first, size)
		}
		if h := batch.Records[0].Headers; len(h) != 1 || string(h[0].Key) != "tg" {
			t.Errorf("%s: the first record's header is gone: %v", when, h)
		}
	}
	check("as written", 5, 0)
	check("as written", 19, 10)
	purge(t, k, topic, 5)
	check("after a purge", 5, 0)
	if err := k.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after a restart", 6, 0)
	check("after a restart", 12, 10)
}

func leader(t *testing.T, k *servers.KafkaServer, topic string) *sarama.Broker {
	t.Helper()
	client, err := sarama.NewClient(k.Brokers(), servers.SaramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	b, err := client.Leader(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func produceBatch(t *testing.T, k *servers.KafkaServer, topic string, records int) {
	t.Helper()
	now := time.Now().Truncate(time.Millisecond)
	batch := &sarama.RecordBatch{
		Version: 2, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		LastOffsetDelta: int32(records - 1),
	}
	for i := range records {
		r := &sarama.Record{OffsetDelta: int64(i), Value: []byte(fmt.Sprint(i))}
		if i == 0 {
			r.Headers = []*sarama.RecordHeader{{Key: []byte("tg"), Value: []byte("channel")}}
		}
		batch.Records = append(batch.Records, r)
	}
	request := &sarama.ProduceRequest{Version: 7, RequiredAcks: sarama.WaitForAll, Timeout: 10_000}
	request.AddBatch(topic, 0, batch)
	response, err := leader(t, k, topic).Produce(request)
	if err != nil {
		t.Fatal(err)
	}
	if block := response.GetBlock(topic, 0); block.Err != sarama.ErrNoError { //nolint:errorlint // a code, never wrapped
		t.Fatal(block.Err)
	}
}

func fetchBatch(t *testing.T, k *servers.KafkaServer, topic string, offset int64) *sarama.RecordBatch {
	t.Helper()
	request := &sarama.FetchRequest{Version: 11, MaxWaitTime: 5000, MinBytes: 1, MaxBytes: 1 << 20}
	request.AddBlock(topic, 0, offset, 1<<20, -1)
	response, err := leader(t, k, topic).Fetch(request)
	if err != nil {
		t.Fatal(err)
	}
	block := response.GetBlock(topic, 0)
	if block.Err != sarama.ErrNoError { //nolint:errorlint // a code, never wrapped
		t.Fatal(block.Err)
	}
	if len(block.RecordsSet) == 0 || block.RecordsSet[0].RecordBatch == nil {
		t.Fatalf("no batch at offset %d", offset)
	}
	return block.RecordsSet[0].RecordBatch
}

func purge(t *testing.T, k *servers.KafkaServer, topic string, before int64) {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(k.Brokers(), servers.SaramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.DeleteRecords(topic, map[int32]int64{0: before}); err != nil {
		t.Fatal(err)
	}
}
