package checkpoint

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The envelope of parts, manifests and markers: 4 bytes magic, kind, version,
// flags, zero, CRC-32C over those last four bytes and the payload, payload.
// docs/format/part.md and manifest.md describe it.
const (
	envelopeMagic   = "TGCK"
	envelopeVersion = 1
	envelopeHeader  = 12
	flagGzip        = 1

	envelopePart     = 'P'
	envelopeManifest = 'M'
	envelopeMarker   = 'K'

	// gzipFrom is the payload size from which compression pays.
	gzipFrom = 4 << 10
	// maxPayload bounds what a decoder unpacks: a damaged or hostile object
	// must not exhaust the process.
	maxPayload = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C, as used in every reference and envelope.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func encodeEnvelope(kind byte, v any) ([]byte, error) {
	payload, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(payload) > maxPayload {
		return nil, fmt.Errorf("the description has %d bytes, more than the %d a reader accepts", len(payload), maxPayload)
	}
	var flags byte
	if len(payload) >= gzipFrom {
		var z bytes.Buffer
		w, err := gzip.NewWriterLevel(&z, gzip.BestSpeed)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(payload); err != nil {
			return nil, err
		}
		if err := w.Close(); err != nil {
			return nil, err
		}
		payload, flags = z.Bytes(), flagGzip
	}
	out := make([]byte, envelopeHeader, envelopeHeader+len(payload))
	copy(out, envelopeMagic)
	out[4], out[5], out[6] = kind, envelopeVersion, flags
	out = append(out, payload...)
	binary.BigEndian.PutUint32(out[8:], envelopeSum(out))
	return out, nil
}

func envelopeSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[4:8], castagnoli), castagnoli, b[envelopeHeader:])
}

// decodeEnvelope checks and unpacks b into v. Damage is told from a newer
// version, because what to do about them differs.
func decodeEnvelope(kind byte, b []byte, v any) error {
	if len(b) < envelopeHeader || string(b[:4]) != envelopeMagic {
		return errors.New("not a checkpoint object: the magic is missing")
	}
	if sum := binary.BigEndian.Uint32(b[8:]); sum != envelopeSum(b) {
		return fmt.Errorf("checksum %08x, want %08x", envelopeSum(b), sum)
	}
	if b[4] != kind {
		return fmt.Errorf("an object of kind %q where kind %q was expected", b[4], kind)
	}
	if b[5] != envelopeVersion || b[6]&^flagGzip != 0 || b[7] != 0 {
		return fmt.Errorf("format version %d flags %d: written by a newer tidegate; upgrade this instance", b[5], b[6])
	}
	payload := b[envelopeHeader:]
	if b[6]&flagGzip != 0 {
		var err error
		if payload, err = gunzip(payload); err != nil {
			return err
		}
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("decode description: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("decode description: bytes behind its end")
	}
	return nil
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("unpack description: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("unpack description: %w", err)
	}
	if len(out) > maxPayload {
		return nil, fmt.Errorf("unpack description: more than %d bytes", maxPayload)
	}
	return out, nil
}
