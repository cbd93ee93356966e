package barrier

import "errors"

// MaxRecordSize is the largest encoded control-log record, in bytes. It is
// below Kafka's default max.message.bytes; a Start of 10,000 tasks needs about
// 20 kB.
const MaxRecordSize = 900 << 10

// AppendRecord appends the encoded record to dst. It fails when the record
// exceeds MaxRecordSize.
func AppendRecord(dst []byte, r Record) ([]byte, error) { return dst, errors.ErrUnsupported }

// DecodeRecord is the inverse of AppendRecord. The result does not alias b.
func DecodeRecord(b []byte) (Record, error) { return Record{}, errors.ErrUnsupported }
