package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tidegate/tidegate/checkpoint"
)

// Store is a checkpoint.Store in a directory.
type Store struct {
	root string
	sync bool
}

// Option configures a Store.
type Option func(*Store)

// WithoutSync leaves out fsync: faster, and safe against killed processes, but
// a power failure can lose checkpoints that were reported complete. For tests
// and demos.
func WithoutSync() Option { return func(s *Store) { s.sync = false } }

// New returns a store in root, which is created if its parent exists: a missing
// parent is taken for a file system that is not mounted. It does no I/O;
// Check, or the first use, reports what is wrong.
func New(root string, opts ...Option) (*Store, error) {
	if root == "" {
		return nil, &checkpoint.Error{Kind: checkpoint.KindInvalid, Op: "open", Hint: "a directory store needs a path"}
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, &checkpoint.Error{Kind: checkpoint.KindInvalid, Op: "open", Store: root, Err: err}
	}
	s := &Store{root: abs, sync: true}
	for _, o := range opts {
		o(s)
	}
	return s, nil
}

// String returns "dir:" and the path.
func (s *Store) String() string { return "dir:" + s.root }

// Check makes the directory if need be and tries everything that checkpoints
// need of it.
func (s *Store) Check(ctx context.Context) error {
	switch info, err := os.Stat(s.root); {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Mkdir(s.root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return s.hinted("check", "create the directory, or mount the file system that it is to be on", err)
		}
	case err != nil:
		return s.hinted("check", "the directory cannot be used", err)
	case !info.IsDir():
		return s.hinted("check", "the path is a file: name a directory", syscall.ENOTDIR)
	}
	return checkpoint.Probe(ctx, s)
}

// Put stores an object.
func (s *Store) Put(ctx context.Context, key string, src checkpoint.Source) error {
	return s.write(ctx, "put", key, src, os.Rename)
}

// PutIfAbsent stores an object unless its key exists.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.write(ctx, "put if absent", key, checkpoint.BytesSource(data), func(tmp, path string) error {
		err := os.Link(tmp, path)
		if noLinks(err) {
			return s.createExclusive(path, data)
		}
		if err != nil {
			return err
		}
		_ = os.Remove(tmp) // a temporary file that stays is found by the cleaner
		return nil
	})
}

// write makes a synced temporary file and lets publish give it its name.
func (s *Store) write(ctx context.Context, op, key string, src checkpoint.Source, publish func(tmp, path string) error) error {
	if err := checkpoint.ValidKey(key); err != nil {
		return err
	}
	path := s.path(key)
	tmp, err := s.writeTemp(ctx, path, src)
	if err != nil {
		return s.failed(ctx, op, key, err)
	}
	if err = ctx.Err(); err == nil {
		err = publish(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error counts
		return s.failed(ctx, op, key, err)
	}
	return s.failed(ctx, op, key, s.syncDir(filepath.Dir(path)))
}

const tempPrefix = ".tmp-"

func (s *Store) writeTemp(ctx context.Context, path string, src checkpoint.Source) (tmp string, err error) {
	folder, name := filepath.Split(path)
	tmp = filepath.Join(folder, tempPrefix+rand.Text()[:12]+"-"+name)
	f, err := s.createTemp(folder, tmp)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(tmp) // the first error counts
		}
	}()
	n, err := io.Copy(f, &ctxReader{ctx, io.NewSectionReader(src.Reader, 0, src.Size)})
	if err != nil {
		return "", err
	}
	if n != src.Size {
		return "", fmt.Errorf("the source has %d bytes, not %d", n, src.Size)
	}
	if s.sync {
		if err := f.Sync(); err != nil {
			return "", err
		}
	}
	return tmp, f.Close()
}

// createTemp makes the folder if need be. A Delete in another instance may
// remove the emptied folder between the two steps: then both are repeated.
func (s *Store) createTemp(folder, tmp string) (*os.File, error) {
	for try := 0; ; try++ {
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrNotExist) || try == 10 {
			return f, err
		}
		if err := s.makeFolder(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// makeFolder makes the folders between root and folder, each synced in its
// parent. The root itself is made by Check only.
func (s *Store) makeFolder(folder string) error {
	rel, err := filepath.Rel(s.root, folder)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.root); err != nil {
		return fmt.Errorf("the store's directory is missing: %w", syscall.ENOTDIR)
	}
	at := s.root
	for _, seg := range strings.Split(rel, string(filepath.Separator)) {
		parent := at
		at = filepath.Join(at, seg)
		err := os.Mkdir(at, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.syncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// createExclusive is PutIfAbsent where there are no hard links.
func (s *Store) createExclusive(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && s.sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func noLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EMLINK)
}

func (s *Store) syncDir(folder string) error {
	if !s.sync {
		return nil
	}
	d, err := os.Open(folder)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // emptied and removed meanwhile: the object was deleted
		}
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // file systems that sync a name with its file
	}
	return errors.Join(err, d.Close())
}

// Open reads an object.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkpoint.ValidKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(s.path(key))
	if gone(err) {
		if _, err := os.Stat(s.root); err != nil {
			return nil, s.rootMissing("get", err)
		}
		return nil, s.failed(ctx, "get", key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, s.failed(ctx, "get", key, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist // a prefix is no object
	}
	if err != nil {
		_ = f.Close()
		return nil, s.failed(ctx, "get", key, err)
	}
	if length < 0 {
		length = max(0, info.Size()-offset)
	}
	return &body{Reader: &ctxReader{ctx, io.NewSectionReader(f, offset, length)}, Closer: f}, nil
}

type body struct {
	io.Reader
	io.Closer
}

// ctxReader ends a long copy when the context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Delete removes objects and the folders that it empties.
func (s *Store) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if err := checkpoint.ValidKey(key); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		path := s.path(key)
		if err := os.Remove(path); err != nil && !gone(err) {
			return s.failed(ctx, "delete", key, err)
		}
		s.removeEmpty(filepath.Dir(path))
	}
	return nil
}

// removeEmpty removes folder and its parents up to the root while they are
// empty; os.Remove refuses the others.
func (s *Store) removeEmpty(folder string) {
	for folder != s.root && os.Remove(folder) == nil {
		folder = filepath.Dir(folder)
	}
}

func (s *Store) path(key string) string { return filepath.Join(s.root, filepath.FromSlash(key)) }

// gone: a path below a file that is an object is missing as well.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// List yields objects in key order.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[checkpoint.Object, error] {
	return func(yield func(checkpoint.Object, error) bool) {
		s.walk(ctx, prefix, func(key string, e fs.DirEntry) (bool, error) {
			if strings.HasPrefix(e.Name(), ".") {
				return true, nil
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			return yield(checkpoint.Object{Key: key, Size: info.Size()}, nil), nil
		}, func(err error) { yield(checkpoint.Object{}, err) })
	}
}

// ListIncomplete yields temporary files under the key they were meant for.
func (s *Store) ListIncomplete(ctx context.Context, prefix string) iter.Seq2[checkpoint.Upload, error] {
	return func(yield func(checkpoint.Upload, error) bool) {
		s.walk(ctx, prefix, func(key string, e fs.DirEntry) (bool, error) {
			target, ok := tempTarget(e.Name())
			if !ok {
				return true, nil
			}
			key = key[:len(key)-len(e.Name())] + target
			return yield(checkpoint.Upload{Key: key, ID: e.Name()}, nil), nil
		}, func(err error) { yield(checkpoint.Upload{}, err) })
	}
}

// AbortIncomplete removes a temporary file.
func (s *Store) AbortIncomplete(ctx context.Context, u checkpoint.Upload) error {
	target, ok := tempTarget(u.ID)
	if err := checkpoint.ValidKey(u.Key); err != nil || !ok || !strings.HasSuffix("/"+u.Key, "/"+target) {
		return &checkpoint.Error{Kind: checkpoint.KindInvalid, Op: "abort upload", Store: s.String(), Key: u.Key, Err: fmt.Errorf("no temporary file of this key: %q", u.ID)}
	}
	folder := filepath.Dir(s.path(u.Key))
	if err := os.Remove(filepath.Join(folder, u.ID)); err != nil && !gone(err) {
		return s.failed(ctx, "abort upload", u.Key, err)
	}
	s.removeEmpty(folder)
	return nil
}

func tempTarget(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	if !ok || strings.ContainsAny(name, `/\`) {
		return "", false
	}
	_, target, ok := strings.Cut(rest, "-")
	return target, ok && target != ""
}

// walk visits the files whose key, or whose folder's key, may begin with
// prefix, in key order, until visit returns false.
func (s *Store) walk(ctx context.Context, prefix string, visit func(key string, e fs.DirEntry) (bool, error), fail func(error)) {
	if err := checkpoint.ValidPrefix(prefix); err != nil {
		fail(err)
		return
	}
	if _, err := os.Stat(s.root); err != nil {
		fail(s.rootMissing("list", err))
		return
	}
	start := ""
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		start = prefix[:i+1]
	}
	if _, err := s.walkFolder(ctx, start, prefix, visit); err != nil {
		fail(s.failed(ctx, "list", prefix, err))
	}
}

func (s *Store) walkFolder(ctx context.Context, at, prefix string, visit func(string, fs.DirEntry) (bool, error)) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(s.path(at))
	if gone(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	sortAsKeys(entries)
	for _, e := range entries {
		key := at + e.Name()
		if !matches(at, e.Name(), prefix, e.IsDir()) {
			continue
		}
		var more bool
		if e.IsDir() {
			more, err = s.walkFolder(ctx, key+"/", prefix, visit)
		} else {
			more, err = visit(key, e)
		}
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// matches judges temporary files by the key they were meant for.
func matches(at, name, prefix string, folder bool) bool {
	if target, ok := tempTarget(name); ok {
		name = target
	}
	key := at + name
	if folder {
		key += "/"
		if strings.HasPrefix(prefix, key) {
			return true
		}
	}
	return strings.HasPrefix(key, prefix)
}

// failed types an error of the operating system.
func (s *Store) failed(ctx context.Context, op, key string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*checkpoint.Error)(nil); errors.As(err, &e) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	out := &checkpoint.Error{Kind: checkpoint.KindUnavailable, Op: op, Store: s.String(), Key: key, Err: err}
	switch {
	case errors.Is(err, fs.ErrExist):
		out.Kind = checkpoint.KindExists
	case errors.Is(err, fs.ErrNotExist):
		out.Kind = checkpoint.KindNotFound
		if op == "put" || op == "put if absent" {
			out.Kind = checkpoint.KindUnavailable // a folder vanished: repeat
		}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		out.Kind = checkpoint.KindDenied
		out.Hint = "give the user that runs this process the right to read and write there"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		out.Kind = checkpoint.KindInvalid
		out.Hint = "create the directory, or mount the file system that it is to be on"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		out.Hint = "the disk is full: free space; checkpoints are declined until then"
	}
	return out
}

// rootMissing keeps an unmounted file system from looking like an empty store.
func (s *Store) rootMissing(op string, err error) error {
	return s.hinted(op, "the store's directory is missing: create it, or mount the file system that it is on", err)
}

func (s *Store) hinted(op, hint string, err error) error {
	e := &checkpoint.Error{Kind: checkpoint.KindInvalid, Op: op, Store: s.String(), Hint: hint, Err: err}
	if errors.Is(err, fs.ErrPermission) {
		e.Kind = checkpoint.KindDenied
	}
	return e
}
