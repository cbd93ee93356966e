package tidegate.peer;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;

/** Runs one workload on Kafka Streams until it is terminated. */
public final class Streams {
    private Streams() {}

    public static void main(String[] argv) throws InterruptedException {
        Args args = new Args(argv);
        StreamsBuilder builder = new StreamsBuilder();
        Workloads.build(builder, args);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties(args));
        CountDownLatch end = new CountDownLatch(1);
        boolean[] failed = new boolean[1];
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            failed[0] = true;
            end.countDown();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now + " " + System.currentTimeMillis()));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(20));
            end.countDown();
        }));
        streams.start();
        end.await();
        if (failed[0]) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static Properties properties(Args args) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, args.text("app"));
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args.brokers());
        p.put(StreamsConfig.STATE_DIR_CONFIG, args.stateDir());
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args.text("guarantee", StreamsConfig.EXACTLY_ONCE_V2));
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args.intervalMs());
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args.threads());
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, args.number("cache-bytes", 0));
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, (int) args.number("standbys", 0));
        p.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.OPTIMIZE);
        // An idle partition must not hold a join back, and one that is behind not be overtaken.
        p.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, args.number("max-task-idle-ms", 0));
        p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // What makes it fastest here: larger batches than the client's defaults.
        p.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), (int) args.number("batch-bytes", 262_144));
        p.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), args.number("linger-ms", 20));
        // How often closed windows are looked for; by default once a second, which latencies would show.
        p.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, args.number("emit-interval-ms", 100));
        if (args.number("transactional-stores", 0) == 1) {
            p.put(StreamsConfig.TRANSACTIONAL_STATE_STORES_CONFIG, true);
        }
        if (args.number("streams-protocol", 0) == 1) {
            // The broker decides on the session timeout and the number of standbys then.
            p.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        } else {
            p.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), (int) args.number("session-ms", 10_000));
        }
        return p;
    }
}
