package elastic

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidegate/tidegate"
)

// An instance that comes back downloads nothing, whether it stopped or died;
// what is damaged in its folder is downloaded again; one with an empty folder
// downloads all.
func TestRestartDownloadsOnlyWhatIsMissing(t *testing.T) {
	c := newCluster(t)
	round := func(name string, opts ...tidegate.Option) int64 {
		t.Helper()
		a := c.start(name, opts...)
		c.running(a)
		c.produce(2000, 500)
		c.settled(a)
		c.checkpoints(a, 2)
		a.end()
		return a.Health().DownloadedBytes
	}
	round("a")
	if n := round("a"); n != 0 {
		t.Errorf("%d bytes downloaded after a stop", n)
	}
	if n := round("a", killed()); n != 0 {
		t.Errorf("%d bytes downloaded after a stop", n)
	}
	if n := round("a"); n != 0 {
		t.Errorf("%d bytes downloaded after a crash", n)
	}
	all := round("b")
	if all == 0 {
		t.Error("an empty folder, and nothing was downloaded")
	}
	round("a")
	hurt := int64(0)
	for name, size := range c.copies("a") {
		path := filepath.Join(c.folder("a"), "files", name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if hurt == 0 && size > 0 {
			b[size/2] ^= 1
			hurt = size
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := round("a"); n != hurt {
		t.Errorf("%d bytes downloaded, one file of %d was damaged", n, hurt)
	}
}

// An instance whose peer keeps copies dies: the peer takes its tasks over, rolls
// back what is downstream of them, and downloads nothing; its tasks that read input
// go on.
func TestTakeoverWithStandby(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", tidegate.WithStandbys(1), killed(), tidegate.WithTags(map[string]string{"zone": "1"}))
	b := c.start("b", tidegate.WithStandbys(1), tidegate.WithTags(map[string]string{"zone": "2"}))
	c.running(a, b)
	for range 5 {
		c.produce(1000, 300)
		c.settled(a, b)
	}
	c.eventually("both have the same copies", func() bool {
		of := c.copies("a")
		return len(of) >= partitions && maps.Equal(of, c.copies("b"))
	})
	before, reads := b.Health().DownloadedBytes, map[int]int{}
	for _, task := range b.Health().Tasks {
		var sub, p int
		if _, err := fmt.Sscanf(task, "%d_%d", &sub, &p); err != nil {
			t.Fatal(err)
		}
		if sub == 0 {
			reads[p] = c.again(p)
		}
	}
	if len(reads) == 0 || len(reads) == partitions {
		t.Fatalf("the peer reads %d partitions", len(reads))
	}
	c.produce(1000, 300)
	a.end()
	c.produce(1000, 300)
	c.settled(b)
	if n := len(b.Health().Tasks); n != 2*partitions {
		t.Errorf("%d tasks", n)
	}
	// What completed between the comparison and the death was copied as well.
	if n := b.Health().DownloadedBytes - before; n != 0 {
		t.Errorf("%d bytes downloaded by the takeover", n)
	}
	for p, n := range reads {
		if more := c.again(p) - n; more > 0 {
			t.Errorf("%d records of partition %d were processed again by a task that was not affected", more, p)
		}
	}
}
