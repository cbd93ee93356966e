package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/ids"
)

// Names builds the object names of one life of one application. Names hold
// life, checkpoint, task, incarnation and attempt, so none is ever put twice
// with different bytes (R15), and a cleaner can tell from a name alone which
// checkpoint an object was written for (R30).
//
//	APP/LIFE/data/N/TASK/INCARNATION.ATTEMPT/FILE    one state file
//	APP/LIFE/pack/N/TASK/INCARNATION.ATTEMPT/I       small files, packed
//	APP/LIFE/part/N/INSTANCE=RAND.ATTEMPT            what one instance acked
//	APP/LIFE/manifest/N/TERM                         a checkpoint (R17)
//	APP/marked/LIFE/N                                makes N restorable by key
//	APP/LIFE/share/INSTANCE=RAND                     written once by each instance of early versions; nobody reads it
//
// N, INCARNATION and TERM are decimal with leading zeros (19 digits), so that
// key order is numerical order; LIFE and RAND are 16 hexadecimal digits. APP,
// INSTANCE and FILE are escaped: bytes outside [A-Za-z0-9._-], and a leading
// dot, become %XX; what is longer than 120 bytes then is cut and ends in a hash.
type Names struct {
	// App is the application id.
	App  string
	Life ids.Life
}

// NameKind says what an object is.
type NameKind uint8

// The kinds of objects; the list at Names says where each is.
const (
	NameFile NameKind = iota + 1
	NamePack
	NamePart
	NameManifest
	NameMarker
	NameShare
)

// Name is a parsed object name. Fields that the kind does not have are zero.
// App, File and Instance are in their escaped form.
type Name struct {
	Kind        NameKind
	App         string
	Life        ids.Life
	Checkpoint  ids.CheckpointID
	Task        ids.TaskID
	Incarnation ids.Incarnation
	Attempt     int64
	Term        int64
	File        string
	Instance    string
}

// Writer identifies one attempt of one task to upload one checkpoint.
type Writer struct {
	Checkpoint  ids.CheckpointID
	Task        ids.TaskID
	Incarnation ids.Incarnation
	// Attempt is 0 for the first try. An incarnation lives in one process, so a
	// counter in memory is enough to keep it from being reused.
	Attempt int64
}

// ApplicationPrefix is the prefix of all objects of an application, of all lives.
func ApplicationPrefix(application string) string { return escape(application) + "/" }

// LifePrefix is the prefix of all objects of the life but its markers.
func (n Names) LifePrefix() string { return escape(n.App) + "/" + n.Life.String() + "/" }

// MarkerPrefix is the prefix of the life's markers.
func (n Names) MarkerPrefix() string {
	return escape(n.App) + "/marked/" + n.Life.String() + "/"
}

// File names the object of one state file.
func (n Names) File(w Writer, local string) string {
	return n.LifePrefix() + "data/" + w.path() + "/" + escape(local)
}

// Pack names the i-th object of packed small files.
func (n Names) Pack(w Writer, i int) string {
	return n.LifePrefix() + "pack/" + w.path() + "/" + strconv.Itoa(i)
}

// Part names what one instance stored for a checkpoint.
func (n Names) Part(cp ids.CheckpointID, inst ids.InstanceID, attempt int64) string {
	return n.LifePrefix() + "part/" + num(int64(cp)) + "/" + instanceSegment(inst) + "." + strconv.FormatInt(attempt, 10)
}

// Manifest names the manifest that the coordinator of a term proposes.
func (n Names) Manifest(cp ids.CheckpointID, term int64) string {
	return n.LifePrefix() + "manifest/" + num(int64(cp)) + "/" + num(term)
}

// Marker names the object that makes a checkpoint restorable by key.
func (n Names) Marker(cp ids.CheckpointID) string { return n.MarkerPrefix() + num(int64(cp)) }

// Share names an object that early versions wrote and left; cleaning removes it.
func (n Names) Share(inst ids.InstanceID) string {
	return n.LifePrefix() + "share/" + instanceSegment(inst)
}

// Owns reports whether key is an object of this application and life. A life
// references and deletes only its own objects (R30).
func (n Names) Owns(key string) bool {
	return strings.HasPrefix(key, n.LifePrefix()) || strings.HasPrefix(key, n.MarkerPrefix())
}

func (w Writer) path() string {
	return num(int64(w.Checkpoint)) + "/" + w.Task.String() + "/" +
		num(int64(w.Incarnation)) + "." + strconv.FormatInt(w.Attempt, 10)
}

func num(v int64) string { return fmt.Sprintf("%019d", v) }

func instanceSegment(i ids.InstanceID) string {
	return fmt.Sprintf("%s=%016x", escape(i.Name), i.Rand)
}

// maxEscaped leaves room for suffixes within a segment.
const maxEscaped = 120

// escape makes any string one segment of a key. It is injective but for a
// SHA-256 collision: "%" itself is escaped, and only cut names have a "=".
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plainByte(c) && (c != '.' || i > 0) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	out := b.String()
	if out == "" {
		return "=empty"
	}
	if len(out) > maxEscaped {
		sum := sha256.Sum256([]byte(s))
		out = out[:maxEscaped-33] + "=" + hex.EncodeToString(sum[:16])
	}
	return out
}

// ParseName is the inverse of the functions of Names. It is strict: a key that
// they would not build is an error, and cleaning leaves it alone.
func ParseName(key string) (Name, error) {
	if err := ValidKey(key); err != nil {
		return Name{}, err
	}
	p := parser{segs: strings.Split(key, "/")}
	n := Name{App: p.next()}
	if second := p.next(); second == "marked" {
		n.Kind = NameMarker
		n.Life = p.life(p.next())
		n.Checkpoint = ids.CheckpointID(p.num(p.next()))
	} else {
		n.Life = p.life(second)
		p.kind(&n, p.next())
	}
	if p.bad || len(p.segs) > 0 {
		return Name{}, keyError(key, "it is not the name of a checkpoint object")
	}
	return n, nil
}

type parser struct {
	segs []string
	bad  bool
}

func (p *parser) kind(n *Name, kind string) {
	switch kind {
	case "data":
		n.Kind = NameFile
		p.writer(n)
		n.File = p.next()
	case "pack":
		n.Kind = NamePack
		p.writer(n)
		n.File = p.next()
		p.small(n.File)
	case "part":
		n.Kind = NamePart
		n.Checkpoint = ids.CheckpointID(p.num(p.next()))
		seg := p.next()
		dot := strings.LastIndexByte(seg, '.')
		if dot < 0 {
			p.bad = true
			return
		}
		n.Instance = p.instance(seg[:dot])
		n.Attempt = p.small(seg[dot+1:])
	case "manifest":
		n.Kind = NameManifest
		n.Checkpoint = ids.CheckpointID(p.num(p.next()))
		n.Term = p.num(p.next())
	case "share":
		n.Kind = NameShare
		n.Instance = p.instance(p.next())
	default:
		p.bad = true
	}
}

func (p *parser) next() string {
	if len(p.segs) == 0 {
		p.bad = true
		return ""
	}
	s := p.segs[0]
	p.segs = p.segs[1:]
	return s
}

func (p *parser) writer(n *Name) {
	n.Checkpoint = ids.CheckpointID(p.num(p.next()))
	seg := p.next()
	task, err := ids.ParseTaskID(seg)
	if err != nil || task.String() != seg {
		p.bad = true
	}
	n.Task = task
	inc, attempt, ok := strings.Cut(p.next(), ".")
	if !ok {
		p.bad = true
	}
	n.Incarnation = ids.Incarnation(p.num(inc))
	n.Attempt = p.small(attempt)
}

func (p *parser) life(s string) ids.Life {
	l, err := ids.ParseLife(s)
	if err != nil || l.String() != s {
		p.bad = true
	}
	return l
}

func (p *parser) num(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 || num(v) != s {
		p.bad = true
	}
	return v
}

func (p *parser) small(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 || strconv.FormatInt(v, 10) != s {
		p.bad = true
	}
	return v
}

func (p *parser) instance(s string) string {
	i := strings.LastIndexByte(s, '=')
	if i < 1 {
		p.bad = true
		return ""
	}
	p.life(s[i+1:]) // the same 16 digits
	return s
}
