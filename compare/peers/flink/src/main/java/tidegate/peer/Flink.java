package tidegate.peer;

import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/** Runs one workload on a Flink cluster within this process until it is terminated. */
public final class Flink {
    /** key, value, timestamp. */
    static final TypeInformation<Tuple3<Long, byte[], Long>> RECORD =
        Types.TUPLE(Types.LONG, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, Types.LONG);

    /** key, value of an output record. */
    static final TypeInformation<Tuple2<Long, byte[]>> OUTPUT =
        Types.TUPLE(Types.LONG, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);

    private Flink() {}

    public static void main(String[] argv) throws Exception {
        Args args = new Args(argv);
        StreamExecutionEnvironment env =
            StreamExecutionEnvironment.createLocalEnvironment(args.threads(), configuration(args));
        env.enableCheckpointing(args.intervalMs(), CheckpointingMode.EXACTLY_ONCE);
        env.getConfig().enableObjectReuse();
        Jobs.build(env, args);
        System.out.println("state RUNNING");
        env.execute(args.text("app"));
    }

    private static Configuration configuration(Args args) {
        Configuration c = new Configuration();
        c.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        c.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        c.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + args.stateDir() + "/checkpoints");
        c.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        c.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(args.number("managed-mb", 256)));
        c.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(64));
        c.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(64));
        c.set(TaskManagerOptions.NUM_TASK_SLOTS, args.threads());
        c.set(RestOptions.BIND_ADDRESS, "127.0.0.1");
        c.set(RestOptions.ADDRESS, "127.0.0.1");
        c.set(RestOptions.BIND_PORT, "0");
        String restore = args.text("restore", "");
        if (!restore.isEmpty()) {
            c.set(StateRecoveryOptions.SAVEPOINT_PATH, restore);
        }
        return c;
    }

    /** A topic with the time of its records, each partition in its own order. */
    static DataStream<Tuple3<Long, byte[], Long>> read(StreamExecutionEnvironment env, Args args, String role) {
        KafkaSource<Tuple3<Long, byte[], Long>> source = KafkaSource.<Tuple3<Long, byte[], Long>>builder()
            .setBootstrapServers(args.brokers())
            .setGroupId(args.text("app"))
            .setTopics(args.text(role))
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setProperty("isolation.level", "read_committed")
            .setDeserializer(new RawRecords())
            .build();
        WatermarkStrategy<Tuple3<Long, byte[], Long>> time =
            WatermarkStrategy.<Tuple3<Long, byte[], Long>>forMonotonousTimestamps().withTimestampAssigner((r, t) -> r.f2);
        return env.fromSource(source, time, role).uid(role);
    }

    static void write(DataStream<Tuple2<Long, byte[]>> rows, Args args) {
        Properties producer = new Properties();
        producer.setProperty("transaction.timeout.ms", "600000");
        producer.setProperty("batch.size", String.valueOf(args.number("batch-bytes", 262_144)));
        producer.setProperty("linger.ms", String.valueOf(args.number("linger-ms", 20)));
        boolean exactly = !args.text("guarantee", "exactly_once").equals("at_least_once");
        KafkaSink<Tuple2<Long, byte[]>> sink = KafkaSink.<Tuple2<Long, byte[]>>builder()
            .setBootstrapServers(args.brokers())
            .setKafkaProducerConfig(producer)
            .setDeliveryGuarantee(exactly ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
            .setTransactionalIdPrefix(args.text("app"))
            .setRecordSerializer(new OutputRecords(args.output()))
            .build();
        rows.sinkTo(sink).uid("output");
    }
}
