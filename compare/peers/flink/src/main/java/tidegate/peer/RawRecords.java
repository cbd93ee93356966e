package tidegate.peer;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Reads key, value and timestamp; keys are 8 bytes, big endian. */
final class RawRecords implements KafkaRecordDeserializationSchema<Tuple3<Long, byte[], Long>> {
    private static final long serialVersionUID = 1;

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> r, Collector<Tuple3<Long, byte[], Long>> out) {
        out.collect(Tuple3.of(Wire.number(r.key()), r.value(), r.timestamp()));
    }

    @Override
    public TypeInformation<Tuple3<Long, byte[], Long>> getProducedType() {
        return Flink.RECORD;
    }
}
