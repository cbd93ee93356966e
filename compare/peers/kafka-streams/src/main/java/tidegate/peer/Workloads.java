package tidegate.peer;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.WindowStore;

/** The workloads in the words of Kafka Streams' DSL. */
final class Workloads {
    private static final Serde<Long> KEY = Serdes.Long();
    private static final Serde<byte[]> VALUE = Serdes.ByteArray();
    /** Event time that may pass, at full speed, between two emissions of closed windows. */
    private static final Duration UNTIL_EMITTED = Duration.ofMinutes(2);

    private Workloads() {}

    static void build(StreamsBuilder b, Args args) {
        switch (args.text("workload")) {
            case "passthrough" -> passthrough(b, args);
            case "count" -> count(b, args);
            case "bigstate" -> bigState(b, args);
            case "q5" -> q5(b, args);
            case "q8" -> q8(b, args);
            default -> throw new IllegalArgumentException("no workload " + args.text("workload"));
        }
    }

    private static KStream<Long, byte[]> read(StreamsBuilder b, Args args, String role) {
        return b.stream(args.text(role), Consumed.with(KEY, VALUE));
    }

    /** q1: the price of every bid times 0.908. */
    private static void passthrough(StreamsBuilder b, Args args) {
        read(b, args, "bids")
            .mapValues(bid -> {
                byte[] out = bid.clone();
                System.arraycopy(Wire.bytes(Wire.number(bid, 16) * 908 / 1000), 0, out, 16, 8);
                return out;
            })
            .to(args.output(), Produced.with(KEY, VALUE));
    }

    /** The running count per key, every update written. */
    private static void count(StreamsBuilder b, Args args) {
        long keys = args.number("keys", 100_000);
        read(b, args, "input")
            .groupBy((k, v) -> Long.remainderUnsigned(k, keys), Grouped.with("by-key", KEY, VALUE))
            .count(Materialized.<Long, Long>as(org.apache.kafka.streams.state.Stores.persistentKeyValueStore("counts"))
                .withKeySerde(KEY).withValueSerde(Serdes.Long()))
            .toStream()
            .to(args.output(), Produced.with(KEY, Serdes.Long()));
    }

    /** A running count per key in values filled up to a size. */
    private static void bigState(StreamsBuilder b, Args args) {
        long keys = args.number("keys", 100_000);
        int size = (int) args.number("value-bytes", 32);
        read(b, args, "input")
            .groupBy((k, v) -> Long.remainderUnsigned(k, keys), Grouped.with("by-key", KEY, VALUE))
            .aggregate(() -> new byte[size], (k, v, big) -> {
                byte[] next = big.clone();
                long n = Wire.number(big);
                if (n == 0) {
                    fill(next, k);
                }
                System.arraycopy(Wire.bytes(n + 1), 0, next, 0, 8);
                return next;
            }, Materialized.<Long, byte[]>as(org.apache.kafka.streams.state.Stores.persistentKeyValueStore("big"))
                .withKeySerde(KEY).withValueSerde(VALUE))
            .toStream()
            .mapValues(big -> Wire.number(big))
            .to(args.output(), Produced.with(KEY, Serdes.Long()));
    }

    /** Fills a value behind its count with bytes that follow from its key and look random. */
    private static void fill(byte[] value, long key) {
        long x = key;
        for (int i = 0; i < value.length - 8; i++) {
            if (i % 8 == 0) {
                x += 0x9e3779b97f4a7c15L;
                x = (x ^ (x >>> 30)) * 0xbf58476d1ce4e5b9L;
                x ^= x >>> 27;
            }
            value[8 + i] = (byte) (x >>> (8 * (i % 8)));
        }
    }

    /**
     * The auction with most bids in each hopping window: counts per auction, then the maximum per window.
     *
     * <p>A window is emitted when stream time passes its end and grace, at most once per emit interval, by reading it
     * from the store. Retention must be longer than window and grace by what stream time moves meanwhile: what is older
     * than it is not there to be emitted. The stores are the DSL's own, which for emission on close are ordered by time.
     */
    private static void q5(StreamsBuilder b, Args args) {
        Duration grace = Duration.ofMillis(args.number("grace-ms", 0));
        Duration kept = Duration.ofMillis(Wire.WINDOW_MS).plus(grace).plus(UNTIL_EMITTED);
        TimeWindows hopping = TimeWindows
            .ofSizeAndGrace(Duration.ofMillis(Wire.WINDOW_MS), grace)
            .advanceBy(Duration.ofMillis(Wire.ADVANCE_MS));
        TimeWindows moment = TimeWindows.ofSizeAndGrace(Duration.ofMillis(1), grace);
        read(b, args, "bids")
            .groupBy((k, bid) -> Wire.bidAuction(bid), Grouped.with("by-auction", KEY, VALUE))
            .windowedBy(hopping)
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.<Long, Long, WindowStore<Bytes, byte[]>>as("bids-per-auction")
                .withKeySerde(KEY).withValueSerde(Serdes.Long()).withRetention(kept).withCachingDisabled())
            .toStream()
            .process(PerWindow::new)
            // A window closes when a later one's counts arrive in its partition: in the only one that is the next.
            .repartition(Repartitioned.with(KEY, VALUE).withName("by-window").withNumberOfPartitions(1))
            .groupByKey(Grouped.with(KEY, VALUE))
            .windowedBy(moment)
            .emitStrategy(EmitStrategy.onWindowClose())
            .reduce(Wire::hotter, Materialized.<Long, byte[], WindowStore<Bytes, byte[]>>as("hottest")
                .withKeySerde(KEY).withValueSerde(VALUE).withRetention(kept).withCachingDisabled())
            .toStream((window, best) -> window.key())
            .to(args.output(), Produced.with(KEY, VALUE));
    }

    /** Turns (auction, window) → count into window end → (auction, count), at the window's last millisecond. */
    private static final class PerWindow extends ContextualProcessor<Windowed<Long>, Long, Long, byte[]> {
        @Override
        public void process(Record<Windowed<Long>, Long> r) {
            long end = r.key().window().end();
            context().forward(new Record<>(end, Wire.bytes(r.key().key(), r.value()), end - 1, r.headers()));
        }
    }

    /** Persons who opened an auction in the 10 s window in which they came. */
    private static void q8(StreamsBuilder b, Args args) {
        JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(
            Duration.ofMillis(Wire.WINDOW_MS), Duration.ofMillis(args.number("grace-ms", 0)));
        KStream<Long, byte[]> persons = read(b, args, "persons");
        KStream<Long, byte[]> auctions = read(b, args, "auctions")
            .map((k, a) -> KeyValue.pair(Wire.auctionSeller(a), a));
        persons
            .join(auctions, Workloads::sameWindow, within, StreamJoined.with(KEY, VALUE, VALUE).withName("by-seller").withStoreName("by-seller"))
            .filter((person, row) -> row.length > 0)
            .to(args.output(), Produced.with(KEY, VALUE));
    }

    private static byte[] sameWindow(byte[] person, byte[] auction) {
        long start = Wire.windowStart(Wire.number(person, 8));
        if (start != Wire.windowStart(Wire.number(auction, 16))) {
            return new byte[0];
        }
        return Wire.bytes(Wire.auctionId(auction), start);
    }
}
