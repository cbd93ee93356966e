package tidegate.peer;

import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/** The workloads in the words of Flink's DataStream API. */
final class Jobs {
    private Jobs() {}

    static void build(StreamExecutionEnvironment env, Args args) {
        switch (args.text("workload")) {
            case "passthrough" -> passthrough(env, args);
            case "count" -> count(env, args);
            case "q5" -> q5(env, args);
            case "q8" -> q8(env, args);
            default -> throw new IllegalArgumentException("no workload " + args.text("workload"));
        }
    }

    /** q1: the price of every bid times 0.908. */
    private static void passthrough(StreamExecutionEnvironment env, Args args) {
        Flink.write(Flink.read(env, args, "bids").map(r -> {
            byte[] out = r.f1.clone();
            System.arraycopy(Wire.bytes(Wire.number(r.f1, 16) * 908 / 1000), 0, out, 16, 8);
            return Tuple2.of(r.f0, out);
        }).returns(Flink.OUTPUT), args);
    }

    /** The running count per key, every update written. */
    private static void count(StreamExecutionEnvironment env, Args args) {
        long keys = args.number("keys", 100_000);
        DataStream<Tuple2<Long, byte[]>> counts = Flink.read(env, args, "input")
            .keyBy(r -> Long.remainderUnsigned(r.f0, keys), Types.LONG)
            .process(new Counter())
            .uid("counts")
            .returns(Flink.OUTPUT);
        Flink.write(counts, args);
    }

    private static final class Counter extends KeyedProcessFunction<Long, Tuple3<Long, byte[], Long>, Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1;
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Tuple3<Long, byte[], Long> r, Context c, Collector<Tuple2<Long, byte[]>> out) throws Exception {
            Long before = count.value();
            long n = before == null ? 1 : before + 1;
            count.update(n);
            out.collect(Tuple2.of(c.getCurrentKey(), Wire.bytes(n)));
        }
    }

    /** The auction with most bids in each hopping window: counts per auction, then the maximum per window. */
    private static void q5(StreamExecutionEnvironment env, Args args) {
        DataStream<Tuple2<Long, byte[]>> hottest = Flink.read(env, args, "bids")
            .keyBy(r -> Wire.bidAuction(r.f1), Types.LONG)
            .window(SlidingEventTimeWindows.of(Duration.ofMillis(Wire.WINDOW_MS), Duration.ofMillis(Wire.ADVANCE_MS)))
            .aggregate(new CountAll(), new PerWindow())
            .returns(Flink.OUTPUT)
            .uid("bids-per-auction")
            .keyBy(r -> r.f0, Types.LONG)
            .window(TumblingEventTimeWindows.of(Duration.ofMillis(1)))
            .reduce((a, b) -> Tuple2.of(a.f0, Wire.hotter(a.f1, b.f1)))
            .uid("hottest");
        Flink.write(hottest, args);
    }

    private static final class CountAll implements AggregateFunction<Tuple3<Long, byte[], Long>, Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple3<Long, byte[], Long> r, Long n) {
            return n + 1;
        }

        @Override
        public Long getResult(Long n) {
            return n;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    /** Turns (auction, window) → count into window end → (auction, count). */
    private static final class PerWindow extends ProcessWindowFunction<Long, Tuple2<Long, byte[]>, Long, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(Long auction, Context c, Iterable<Long> counts, Collector<Tuple2<Long, byte[]>> out) {
            for (long n : counts) {
                out.collect(Tuple2.of(c.window().getEnd(), Wire.bytes(auction, n)));
            }
        }
    }

    /** Persons who opened an auction in the 10 s window in which they came. */
    private static void q8(StreamExecutionEnvironment env, Args args) {
        Duration within = Duration.ofMillis(Wire.WINDOW_MS);
        DataStream<Tuple2<Long, byte[]>> rows = Flink.read(env, args, "persons")
            .keyBy(r -> r.f0, Types.LONG)
            .intervalJoin(Flink.read(env, args, "auctions").keyBy(r -> Wire.auctionSeller(r.f1), Types.LONG))
            .between(within.negated(), within)
            .process(new SameWindow())
            .returns(Flink.OUTPUT)
            .uid("by-seller");
        Flink.write(rows, args);
    }

    private static final class SameWindow
            extends ProcessJoinFunction<Tuple3<Long, byte[], Long>, Tuple3<Long, byte[], Long>, Tuple2<Long, byte[]>> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(
                Tuple3<Long, byte[], Long> person, Tuple3<Long, byte[], Long> auction, Context c,
                Collector<Tuple2<Long, byte[]>> out) {
            long start = Wire.windowStart(person.f2);
            if (start == Wire.windowStart(auction.f2)) {
                out.collect(Tuple2.of(person.f0, Wire.bytes(Wire.auctionId(auction.f1), start)));
            }
        }
    }
}
