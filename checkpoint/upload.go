package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/tidegate/tidegate/internal/ids"
)

// LocalFile is one file of a task's snapshot.
type LocalFile struct {
	// Name within the state folder; Path where to read it now.
	Name string
	Path string
	Size int64
	// Immutable: its content never changes under this name within one life of
	// the engine.
	Immutable bool
}

// TaskUpload is one task's snapshot to be stored for one checkpoint.
type TaskUpload struct {
	Names  Names
	Writer Writer
	Files  []LocalFile
	// Table belongs to the engine that made the snapshot; nil uploads in full.
	Table *FileTable
	// Base is the last checkpoint completed before this one's Trigger;
	// ids.NoCheckpoint, or one that Table does not hold, uploads in full.
	Base ids.CheckpointID
	// Unchanged says that nothing was written since Base: its files are
	// referenced and Files is ignored. It is heeded only when Table holds Base;
	// else Files is uploaded, and a nil Files is ErrNoBase.
	Unchanged bool
}

// ErrNoBase is returned for an Unchanged upload without files whose base is not
// known here: take a snapshot and upload that.
var ErrNoBase = errors.New("nothing to refer to: the base checkpoint's files are not known; take a snapshot")

// Uploaded is what a TaskUpload came to.
type Uploaded struct {
	// Files goes into the task's part; sorted by name.
	Files []FileRef
	// Base is the checkpoint that was referenced, or ids.NoCheckpoint.
	Base ids.CheckpointID
	// Bytes and Objects were stored now; Referenced bytes were there.
	Bytes, Referenced int64
	Objects           int
}

// UploadOptions configure an Uploader. The zero value is the default.
type UploadOptions struct {
	// Parallel is how many objects are in transfer at once over all tasks; 0
	// means 4.
	Parallel int
	// SmallFile: smaller files are packed; 0 means 64 KiB, negative packs none.
	SmallFile int64
	// PackSize is where a new pack begins; 0 means 8 MiB.
	PackSize int64
	Retry    Retry
}

// Uploader stores snapshots. One Uploader serves all tasks of an instance and
// bounds their transfers together. It owns no goroutine outside its calls.
type Uploader struct {
	store Store
	opts  UploadOptions
	slots slots
}

// NewUploader returns an Uploader to s.
func NewUploader(s Store, o UploadOptions) *Uploader {
	if o.SmallFile == 0 {
		o.SmallFile = 64 << 10
	}
	if o.PackSize <= 0 {
		o.PackSize = 8 << 20
	}
	return &Uploader{store: s, opts: o, slots: newSlots(o.Parallel)}
}

// Upload stores what the base does not hold and returns the task's references.
// When it fails or is cancelled, what it stored is garbage that cleaning
// removes once the checkpoint is decided (R30); a repetition needs a new
// attempt number.
func (u *Uploader) Upload(ctx context.Context, t TaskUpload) (Uploaded, error) {
	base := t.Table.base(t.Base)
	if base != nil && !ownsAll(t.Names, base.all) {
		// A life started from a foreign checkpoint writes its first in full.
		base = nil
	}
	out := Uploaded{Base: ids.NoCheckpoint}
	if base == nil {
		if t.Unchanged && t.Files == nil {
			return Uploaded{}, uploadError(t, ErrNoBase)
		}
		base = &fileSet{}
	} else {
		out.Base = t.Base
		if t.Unchanged {
			out.Files = slices.Clone(base.all)
			for _, f := range out.Files {
				out.Referenced += f.Size
			}
			t.Table.put(t.Writer.Checkpoint, out.Files)
			return out, nil
		}
	}
	plan, err := u.plan(t, base)
	if err != nil {
		return Uploaded{}, uploadError(t, err)
	}
	if err := u.transfer(ctx, plan); err != nil {
		return Uploaded{}, uploadError(t, err)
	}
	plan.result(&out)
	t.Table.put(t.Writer.Checkpoint, out.Files)
	return out, nil
}

// PutPart stores the part under a name of its own and returns the key for the
// ack. Repeat with another attempt number.
func (u *Uploader) PutPart(ctx context.Context, n Names, attempt int64, p Part) (string, error) {
	p.Sort()
	b, err := p.Encode()
	if err != nil {
		return "", err
	}
	key := n.Part(p.Checkpoint, p.Instance, attempt)
	err = u.opts.Retry.do(ctx, Retriable, func() error { return u.store.Put(ctx, key, BytesSource(b)) })
	if err != nil {
		return "", fmt.Errorf("store part of checkpoint %d: %w", p.Checkpoint, err)
	}
	return key, nil
}

func uploadError(t TaskUpload, err error) error {
	return fmt.Errorf("upload state of task %s for checkpoint %d: %w", t.Writer.Task, t.Writer.Checkpoint, err)
}

func ownsAll(n Names, files []FileRef) bool {
	for _, f := range files {
		if !n.Owns(f.Key) {
			return false
		}
	}
	return true
}

// uploadPlan says what becomes of every file.
type uploadPlan struct {
	referenced []FileRef
	objects    []*upObject
}

// upObject is one object to store: one large file, or a pack of small ones.
type upObject struct {
	key   string
	pack  bool
	files []LocalFile
	size  int64
	refs  []FileRef // filled by the transfer
}

// plan decides, without I/O: reference, own object, or pack.
func (u *Uploader) plan(t TaskUpload, base *fileSet) (*uploadPlan, error) {
	files := slices.Clone(t.Files)
	slices.SortFunc(files, func(a, b LocalFile) int { return compareFiles(FileRef{Name: a.Name}, FileRef{Name: b.Name}) })
	p := &uploadPlan{}
	deadPack := mostlyDead(files, base)
	packs := 0
	var pack *upObject
	for i, f := range files {
		if i > 0 && files[i-1].Name == f.Name {
			return nil, fmt.Errorf("the snapshot lists file %q twice", f.Name)
		}
		if err := validFileName(f.Name); err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Name, err)
		}
		if ref, ok := base.files[f.Name]; ok && f.Immutable && ref.Size == f.Size && !deadPack[ref.Key] {
			p.referenced = append(p.referenced, ref)
			continue
		}
		if f.Size >= u.opts.SmallFile {
			p.objects = append(p.objects, &upObject{key: t.Names.File(t.Writer, f.Name), files: []LocalFile{f}, size: f.Size})
			continue
		}
		if pack == nil || pack.size+f.Size > u.opts.PackSize {
			pack = &upObject{key: t.Names.Pack(t.Writer, packs), pack: true}
			packs++
			p.objects = append(p.objects, pack)
		}
		pack.files = append(pack.files, f)
		pack.size += f.Size
	}
	return p, nil
}

// mostlyDead finds packs of the base of which this snapshot would keep less
// than half: their live files are packed again, or a few bytes would keep
// many from being deleted.
func mostlyDead(files []LocalFile, base *fileSet) map[string]bool {
	live := map[string]int64{}
	size := map[string]int64{}
	for _, f := range files {
		if ref, ok := base.files[f.Name]; ok && f.Immutable && ref.Size == f.Size && ref.Packed > 0 {
			live[ref.Key] += ref.Size
			size[ref.Key] = ref.Packed
		}
	}
	dead := map[string]bool{}
	for key, n := range live {
		if n < size[key]/2 {
			dead[key] = true
		}
	}
	return dead
}

func (p *uploadPlan) result(out *Uploaded) {
	for _, ref := range p.referenced {
		out.Referenced += ref.Size
	}
	out.Files = append(out.Files, p.referenced...)
	for _, o := range p.objects {
		out.Files = append(out.Files, o.refs...)
		out.Bytes += o.size
		out.Objects++
	}
	slices.SortFunc(out.Files, compareFiles)
}

func (u *Uploader) transfer(ctx context.Context, p *uploadPlan) error {
	return u.slots.run(ctx, len(p.objects), func(ctx context.Context, i int) error {
		o := p.objects[i]
		if o.pack {
			return u.putPack(ctx, o)
		}
		return u.putFile(ctx, o)
	})
}

func (u *Uploader) putFile(ctx context.Context, o *upObject) error {
	lf := o.files[0]
	f, err := os.Open(lf.Path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	crc, err := checksumFile(ctx, f, lf.Size)
	if err != nil {
		return fmt.Errorf("read %s: %w", lf.Path, err)
	}
	if err := u.put(ctx, o.key, Source{Reader: f, Size: lf.Size}); err != nil {
		return err
	}
	o.refs = []FileRef{{Name: lf.Name, Size: lf.Size, CRC: crc, Key: o.key, Immutable: lf.Immutable}}
	return nil
}

func (u *Uploader) putPack(ctx context.Context, o *upObject) error {
	buf := make([]byte, 0, o.size)
	for _, lf := range o.files {
		b, err := os.ReadFile(lf.Path)
		if err != nil {
			return err
		}
		if int64(len(b)) != lf.Size {
			return fmt.Errorf("read %s: it has %d bytes, the snapshot says %d", lf.Path, len(b), lf.Size)
		}
		o.refs = append(o.refs, FileRef{
			Name: lf.Name, Size: lf.Size, CRC: Checksum(b), Key: o.key,
			Offset: int64(len(buf)), Packed: o.size, Immutable: lf.Immutable,
		})
		buf = append(buf, b...)
	}
	if o.size == 0 { // only empty files: Packed would say "no pack"
		o.size = 1
		buf = append(buf, 0)
		for i := range o.refs {
			o.refs[i].Packed = 1
		}
	}
	return u.put(ctx, o.key, BytesSource(buf))
}

func (u *Uploader) put(ctx context.Context, key string, src Source) error {
	return u.opts.Retry.do(ctx, Retriable, func() error { return u.store.Put(ctx, key, src) })
}
