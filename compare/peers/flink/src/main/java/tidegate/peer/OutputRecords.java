package tidegate.peer;

import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Writes key and value to one topic, partitioned by the client's own partitioner. */
final class OutputRecords implements KafkaRecordSerializationSchema<Tuple2<Long, byte[]>> {
    private static final long serialVersionUID = 1;
    private final String topic;

    OutputRecords(String topic) {
        this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(Tuple2<Long, byte[]> row, KafkaSinkContext context, Long timestamp) {
        return new ProducerRecord<>(topic, null, timestamp, Wire.bytes(row.f0), row.f1);
    }
}
