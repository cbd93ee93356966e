package tidegate.peer;

import java.nio.ByteBuffer;

/**
 * The records of the workloads: keys of 8 bytes, big endian, and values with fixed
 * offsets. compare/README.md describes them.
 */
public final class Wire {
    private Wire() {}

    /** Length of a window of q5 and q8, and the advance of q5's, in milliseconds. */
    public static final long WINDOW_MS = 10_000;

    public static final long ADVANCE_MS = 2_000;

    private static final int SECOND_FIELD = 8;

    public static long number(byte[] b) {
        return number(b, 0);
    }

    public static long number(byte[] b, int at) {
        return ByteBuffer.wrap(b).getLong(at);
    }

    public static byte[] bytes(long n) {
        return ByteBuffer.allocate(8).putLong(n).array();
    }

    public static byte[] bytes(long a, long b) {
        return ByteBuffer.allocate(16).putLong(a).putLong(b).array();
    }

    /** The auction of a bid. */
    public static long bidAuction(byte[] bid) {
        return number(bid, 0);
    }

    /** The seller of an auction. */
    public static long auctionSeller(byte[] auction) {
        return number(auction, SECOND_FIELD);
    }

    /** The id of an auction. */
    public static long auctionId(byte[] auction) {
        return number(auction, 0);
    }

    /** The greater of two results of q5: larger count, then smaller auction. */
    public static byte[] hotter(byte[] a, byte[] b) {
        long countA = number(a, SECOND_FIELD);
        long countB = number(b, SECOND_FIELD);
        if (countA != countB) {
            return countA > countB ? a : b;
        }
        return number(a) <= number(b) ? a : b;
    }

    /** The start of the 10 s window of a timestamp. */
    public static long windowStart(long timestamp) {
        return timestamp - Math.floorMod(timestamp, WINDOW_MS);
    }
}
