package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// maxObject bounds Get: what is read into memory whole is a part, a manifest, a
// pack or a marker.
const maxObject = maxPayload + envelopeHeader

// Get reads a whole small object into memory.
func Get(ctx context.Context, s Store, key string) ([]byte, error) {
	return readRange(ctx, s, key, 0, -1)
}

// GetRange reads length bytes from offset on. Fewer are ErrCorrupted.
func GetRange(ctx context.Context, s Store, key string, offset, length int64) ([]byte, error) {
	if offset < 0 || length < 0 || length > maxObject {
		return nil, &Error{Kind: KindInvalid, Op: "get", Store: s.String(), Key: key, Err: fmt.Errorf("range of %d bytes at %d", length, offset)}
	}
	b, err := readRange(ctx, s, key, offset, length)
	if err == nil && int64(len(b)) != length {
		err = corrupted(s.String(), "get", key, fmt.Errorf("%d bytes at %d, want %d", len(b), offset, length))
	}
	return b, err
}

func readRange(ctx context.Context, s Store, key string, offset, length int64) (b []byte, err error) {
	r, err := s.Open(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // nothing is lost: the bytes were read
	b, err = io.ReadAll(io.LimitReader(r, maxObject+1))
	if err != nil {
		return nil, readError(ctx, s, key, err)
	}
	if len(b) > maxObject {
		return nil, corrupted(s.String(), "get", key, fmt.Errorf("more than %d bytes", maxObject))
	}
	return b, nil
}

// GetFile writes size bytes of an object, from offset on, to a new file and
// compares their CRC-32C. On error the file is removed. Different bytes than
// expected are ErrCorrupted.
func GetFile(ctx context.Context, s Store, ref FileRef, path string) (err error) {
	length := ref.Size
	if ref.Packed == 0 {
		length = -1 // an object that has grown is damaged as well
	}
	r, err := s.Open(ctx, ref.Key, ref.Offset, length)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // nothing is lost: the bytes were read
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("download %s: %w", ref.Key, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("download %s: %w", ref.Key, cerr)
		}
		if err != nil {
			_ = os.Remove(path) // the first error counts
		}
	}()
	sum := &sumReader{r: io.LimitReader(r, ref.Size+1)}
	n, err := io.Copy(f, sum)
	if sum.err != nil {
		return readError(ctx, s, ref.Key, sum.err)
	}
	if err != nil {
		return fmt.Errorf("download %s: %w", ref.Key, err)
	}
	return ref.verify(s, n, sum.crc)
}

// verify compares what was read with the reference.
func (f *FileRef) verify(s Store, size int64, crc uint32) error {
	if size != f.Size {
		return corrupted(s.String(), "get", f.Key, fmt.Errorf("%s has %d bytes or more, want %d", f.Name, size, f.Size))
	}
	if crc != f.CRC {
		return corrupted(s.String(), "get", f.Key, fmt.Errorf("%s has checksum %08x, want %08x", f.Name, crc, f.CRC))
	}
	return nil
}

// sumReader computes the CRC of what passes, and tells errors of reading from
// errors of writing.
type sumReader struct {
	r   io.Reader
	crc uint32
	err error
}

func (s *sumReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.crc = crc32.Update(s.crc, castagnoli, p[:n])
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// readError types an error from the middle of a body: stores return *Error from
// Open, but a connection that breaks later gives whatever the network gave.
func readError(ctx context.Context, s Store, key string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) || contextError(ctx, err) {
		return err
	}
	return &Error{Kind: KindUnavailable, Op: "get", Store: s.String(), Key: key, Err: err}
}

// checksumFile returns the CRC-32C of the first size bytes of f, and fails
// when it has more or fewer.
func checksumFile(ctx context.Context, f io.ReaderAt, size int64) (uint32, error) {
	buf := make([]byte, min(size+1, 256<<10))
	var crc uint32
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := f.ReadAt(buf, off)
		crc = crc32.Update(crc, castagnoli, buf[:n])
		off += int64(n)
		if off > size || err == io.EOF && off < size {
			return 0, fmt.Errorf("it has not the %d bytes that the snapshot says", size)
		}
		if err == io.EOF {
			return crc, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
