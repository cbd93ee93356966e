package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/ids"
)

func TestNames(t *testing.T) {
	n := Names{App: "my app", Life: 0xabc}
	inst := ids.InstanceID{Name: "host.1/a=b", Rand: 7}
	w := Writer{Checkpoint: 12, Task: ids.TaskID{Sub: 1, Partition: 3}, Incarnation: 9, Attempt: 2}
	for _, c := range []struct {
		key, want string
		name      Name
	}{
		{
			n.File(w, "000012.sst"), "my%20app/0000000000000abc/data/0000000000000000012/1_3/0000000000000000009.2/000012.sst",
			Name{Kind: NameFile, Checkpoint: 12, Task: w.Task, Incarnation: 9, Attempt: 2, File: "000012.sst"},
		},
		{
			n.Pack(w, 4), "my%20app/0000000000000abc/pack/0000000000000000012/1_3/0000000000000000009.2/4",
			Name{Kind: NamePack, Checkpoint: 12, Task: w.Task, Incarnation: 9, Attempt: 2, File: "4"},
		},
		{
			n.Part(12, inst, 3), "my%20app/0000000000000abc/part/0000000000000000012/host.1%2Fa%3Db=0000000000000007.3",
			Name{Kind: NamePart, Checkpoint: 12, Attempt: 3, Instance: "host.1%2Fa%3Db=0000000000000007"},
		},
		{
			n.Manifest(12, 5), "my%20app/0000000000000abc/manifest/0000000000000000012/0000000000000000005",
			Name{Kind: NameManifest, Checkpoint: 12, Term: 5},
		},
		{
			n.Marker(12), "my%20app/marked/0000000000000abc/0000000000000000012",
			Name{Kind: NameMarker, Checkpoint: 12},
		},
		{
			n.Share(inst), "my%20app/0000000000000abc/share/host.1%2Fa%3Db=0000000000000007",
			Name{Kind: NameShare, Instance: "host.1%2Fa%3Db=0000000000000007"},
		},
	} {
		if c.key != c.want {
			t.Errorf("%s, want %s", c.key, c.want)
		}
		c.name.App, c.name.Life = "my%20app", 0xabc
		if got, err := ParseName(c.key); err != nil || got != c.name {
			t.Errorf("%s: %+v %v", c.key, got, err)
		}
		if !n.Owns(c.key) || (Names{App: "my app", Life: 1}).Owns(c.key) || (Names{App: "my", Life: 0xabc}).Owns(c.key) {
			t.Errorf("%s: wrong owner", c.key)
		}
	}
}

func TestEscape(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := map[string]string{}
	for _, s := range []string{"", ".", "..", ".a", "a.", "%2E", "%", "a/b", "a%2Fb", "=empty", "ä", "a=b", long, long + "y", strings.Repeat("/", 100)} {
		e := escape(s)
		if err := ValidKey(e); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		if other, ok := seen[e]; ok {
			t.Errorf("%q and %q both become %q", s, other, e)
		}
		seen[e] = s
		if len(e) > maxEscaped {
			t.Errorf("%q: %d bytes", s, len(e))
		}
	}
}

func TestLongestNamesAreValid(t *testing.T) {
	long := strings.Repeat("ä", 200)
	big := int64(1)<<62 + 1
	n := Names{App: long, Life: ^ids.Life(0)}
	inst := ids.InstanceID{Name: long, Rand: ^uint64(0)}
	w := Writer{Checkpoint: ids.CheckpointID(big), Incarnation: ids.Incarnation(big), Attempt: big, Task: ids.TaskID{Sub: 1 << 30, Partition: 1 << 30}}
	for _, key := range []string{n.File(w, long), n.Pack(w, 1<<30), n.Part(w.Checkpoint, inst, big), n.Manifest(w.Checkpoint, big), n.Marker(w.Checkpoint), n.Share(inst)} {
		if _, err := ParseName(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	good := (Names{App: "a", Life: 1}).Part(5, ids.InstanceID{Name: "i", Rand: 1}, 0)
	for _, key := range []string{
		"", "a", "a/b", good + "/x", strings.Replace(good, "part", "parts", 1), strings.Replace(good, "0000000000000000005", "5", 1),
		strings.Replace(good, ".0", ".00", 1), strings.Replace(good, ".0", ".+0", 1), strings.Replace(good, "i=", "=", 1),
		"a/marked/1/0000000000000000005", "a/0000000000000ABC/manifest/0000000000000000005/0000000000000000005", "../../etc/passwd",
		"a/0000000000000001/data/0000000000000000005/01_3/0000000000000000009.2/f",
	} {
		if n, err := ParseName(key); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %+v %v", key, n, err)
		}
	}
}

func FuzzParseName(f *testing.F) {
	n := Names{App: "a", Life: 1}
	w := Writer{Checkpoint: 3, Task: ids.TaskID{Sub: 1}, Incarnation: 2}
	f.Add(n.File(w, "x.sst"))
	f.Add(n.Pack(w, 0))
	f.Add(n.Part(3, ids.InstanceID{Name: "i", Rand: 1}, 0))
	f.Add(n.Manifest(3, 1))
	f.Add(n.Marker(3))
	f.Fuzz(func(t *testing.T, key string) {
		name, err := ParseName(key)
		if err != nil {
			return
		}
		if name.Checkpoint < 0 || name.Attempt < 0 || name.Term < 0 || name.Incarnation < 0 {
			t.Fatalf("%q: %+v", key, name)
		}
		if err := ValidKey(key); err != nil {
			t.Fatal(err)
		}
	})
}
