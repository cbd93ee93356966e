package memory

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
)

// The format is in docs/format/state.md.
const (
	magic         = "tgms"
	formatVersion = 1
	suffix        = ".mem"
	checksumSize  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func fileName(store int, generation uint64) string {
	return fmt.Sprintf("%06d-%012d%s", store, generation, suffix)
}

// parseName reads what fileName wrote.
func parseName(name string) (store int, generation uint64, ok bool) {
	n, err := fmt.Sscanf(name, "%06d-%012d.mem", &store, &generation)
	if err != nil || n != 2 || store < 0 || fileName(store, generation) != name {
		return 0, 0, false
	}
	return store, generation, true
}

// writer sums up what it passes on.
type writer struct {
	w   *bufio.Writer
	sum hash.Hash32
	num []byte
}

func (w *writer) bytes(b []byte) error {
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	_, err := w.sum.Write(b)
	return err
}

func (w *writer) field(b []byte) error {
	w.num = binary.AppendUvarint(w.num[:0], uint64(len(b)))
	if err := w.bytes(w.num); err != nil {
		return err
	}
	return w.bytes(b)
}

// writeStore writes a store to a new file and returns its size.
func writeStore(path string, s *store) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	w := &writer{w: bufio.NewWriterSize(f, 64<<10), sum: crc32.New(castagnoli)}
	if err := w.store(s); err != nil {
		return 0, err
	}
	if err := w.w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (w *writer) store(s *store) error {
	if err := w.bytes(append([]byte(magic), formatVersion)); err != nil {
		return err
	}
	if err := w.field([]byte(s.name)); err != nil {
		return err
	}
	w.num = binary.AppendUvarint(w.num[:0], uint64(s.tree.Len()))
	if err := w.bytes(w.num); err != nil {
		return err
	}
	var err error
	for k, v := range s.tree.Ascend(first, last) {
		if err = w.field([]byte(k)); err == nil {
			err = w.field(v)
		}
		if err != nil {
			return err
		}
	}
	_, err = w.w.Write(w.sum.Sum(nil))
	return err
}

// readStore reads a file that writeStore wrote.
func readStore(path string) (*store, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeStore(b)
}

var errShort = io.ErrUnexpectedEOF

// decodeStore reads a file's content. Values alias b.
func decodeStore(b []byte) (*store, error) {
	if len(b) < len(magic)+1+checksumSize || string(b[:len(magic)]) != magic {
		return nil, errors.New("not a file of a memory store")
	}
	if v := b[len(magic)]; v != formatVersion {
		return nil, fmt.Errorf("memory store file of version %d, this program reads version %d", v, formatVersion)
	}
	body, sum := b[:len(b)-checksumSize], binary.BigEndian.Uint32(b[len(b)-checksumSize:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return nil, fmt.Errorf("checksum %08x instead of %08x", got, sum)
	}
	r := reader{body[len(magic)+1:]}
	name, err := r.field()
	if err != nil {
		return nil, err
	}
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	s := newStore(string(name))
	prev := ""
	for i := range n {
		k, err := r.field()
		if err != nil {
			return nil, err
		}
		v, err := r.field()
		if err != nil {
			return nil, err
		}
		key := string(k)
		if i > 0 && key <= prev {
			return nil, errors.New("keys out of order")
		}
		prev = key
		s.tree.ReplaceOrInsert(key, v)
		s.bytes += int64(len(k) + len(v))
	}
	if len(r.b) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last entry", len(r.b))
	}
	return s, nil
}

type reader struct{ b []byte }

func (r *reader) number() (uint64, error) {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		return 0, errShort
	}
	r.b = r.b[used:]
	return n, nil
}

func (r *reader) field() ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	if n > uint64(len(r.b)) {
		return nil, errShort
	}
	f := r.b[:n:n]
	r.b = r.b[n:]
	return f, nil
}
