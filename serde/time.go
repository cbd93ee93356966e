package serde

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Time is a point in time in milliseconds since the epoch, 8 bytes, big endian:
// what a Java program writes with Kafka's LongSerializer and
// Instant.toEpochMilli. What is below a millisecond is cut off, towards the
// past, and the time zone is not kept: decoded times are in UTC. Two times
// within one millisecond are the same key. It reads stores that were written by
// [Int64].
func Time() Serde[time.Time] { return timeSerde{} }

// TimeNanos is a point in time in nanoseconds since the epoch, 8 bytes, big
// endian. Times before the year 1678 and after 2262 do not fit and are an
// error. Decoded times are in UTC.
func TimeNanos() Serde[time.Time] { return timeNanosSerde{} }

type (
	timeSerde      struct{}
	timeNanosSerde struct{}
)

func (timeSerde) Append(dst []byte, v time.Time) ([]byte, error) {
	ms := v.UnixMilli()
	// Unix is exact for every Time, the product by 1000 is not.
	if s := v.Unix(); s > math.MaxInt64/1000-1 || s < math.MinInt64/1000+1 {
		return dst, fmt.Errorf("time: %v is not within 64 bits of milliseconds", v)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(ms)), nil
}

func (timeSerde) Decode(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, lengthError("time", 8, b)
	}
	ms := int64(binary.BigEndian.Uint64(b))
	if ms > math.MaxInt64-2000 || ms < math.MinInt64+2000 {
		return time.Time{}, fmt.Errorf("time: %d milliseconds are not a time", ms)
	}
	return time.UnixMilli(ms).UTC(), nil
}

func (timeSerde) Fingerprint() string             { return "time-ms" }
func (timeSerde) Accepts(fingerprint string) bool { return fingerprint == "int64" }
func (timeSerde) fixedSize() int                  { return 8 }

func (timeNanosSerde) Append(dst []byte, v time.Time) ([]byte, error) {
	ns := v.UnixNano()
	if !time.Unix(0, ns).Equal(v) {
		return dst, fmt.Errorf("time: %v is not within 64 bits of nanoseconds (the years 1678 to 2262): use serde.Time", v)
	}
	return binary.BigEndian.AppendUint64(dst, uint64(ns)), nil
}

func (timeNanosSerde) Decode(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, lengthError("time-ns", 8, b)
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(b))).UTC(), nil
}

func (timeNanosSerde) Fingerprint() string             { return "time-ns" }
func (timeNanosSerde) Accepts(fingerprint string) bool { return fingerprint == "int64" }
func (timeNanosSerde) fixedSize() int                  { return 8 }
