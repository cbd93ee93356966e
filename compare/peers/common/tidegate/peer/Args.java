package tidegate.peer;

import java.util.HashMap;
import java.util.Map;

/** The command line of a peer: {@code --name value} pairs, the same for every peer. */
public final class Args {
    private final Map<String, String> values = new HashMap<>();

    public Args(String[] args) {
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--") || i + 1 == args.length) {
                throw new IllegalArgumentException("want --name value pairs, got: " + args[i]);
            }
            values.put(args[i].substring(2), args[i + 1]);
        }
    }

    public String text(String name) {
        String v = values.get(name);
        if (v == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return v;
    }

    public String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    public long number(String name, long otherwise) {
        String v = values.get(name);
        return v == null ? otherwise : Long.parseLong(v);
    }

    /** Topics are given by role: {@code --bids topic}, {@code --output topic}. */
    public String brokers() {
        return text("brokers");
    }

    public String output() {
        return text("output");
    }

    /** The state folder, and below it whatever the peer keeps. */
    public String stateDir() {
        return text("state");
    }

    /** Commit or checkpoint interval in milliseconds. */
    public long intervalMs() {
        return number("interval-ms", 1000);
    }

    public int threads() {
        return (int) number("threads", 2);
    }
}
