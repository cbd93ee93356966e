package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// SealName is the name of the file that makes a folder usable.
const SealName = "SEAL"

// sealVersion is the version of the seal's format; see docs/format/state.md.
const sealVersion = 1

// maxSeal bounds the size of a seal that is read.
const maxSeal = 64 << 20

// maxSummed is the size up to which a file's content is part of the seal.
const maxSummed = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal says that a folder was written to its end, and what is in it.
type Seal struct {
	// Label is the writer's: which checkpoint's content this is.
	Label string `json:"label"`
	// Boot identifies the run of the machine's kernel. Nothing in a state folder
	// is synced to disk, so a folder written before a reboot proves nothing.
	Boot  string       `json:"boot,omitempty"`
	Files []SealedFile `json:"files"`
}

// SealedFile is one file that a sealed folder must hold.
type SealedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Sum is the CRC-32C of a file of at most 256 KiB, in hexadecimal. Engines
	// guard large files by checksums of their own; a damaged small one, such as a
	// manifest, may look like one that merely ends earlier.
	Sum string `json:"crc32c,omitempty"`
}

// WriteSeal seals dir as it is now. Call it when the last file is complete.
func WriteSeal(dir, label string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("seal state folder: %w", err)
	}
	seal := Seal{Label: label, Boot: bootID(), Files: []SealedFile{}}
	for _, entry := range entries {
		if entry.Name() == SealName || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return fmt.Errorf("seal state folder: %w", err)
		}
		sum, err := sumOf(filepath.Join(dir, entry.Name()), info.Size())
		if err != nil {
			return fmt.Errorf("seal state folder: %w", err)
		}
		seal.Files = append(seal.Files, SealedFile{Name: entry.Name(), Size: info.Size(), Sum: sum})
	}
	b, err := encodeSeal(seal)
	if err != nil {
		return fmt.Errorf("seal state folder: %w", err)
	}
	tmp := filepath.Join(dir, SealName+".tmp")
	if err = os.WriteFile(tmp, b, 0o600); err == nil {
		err = os.Rename(tmp, filepath.Join(dir, SealName))
	}
	if err != nil {
		_ = os.Remove(tmp)
		return Wrap(dir, fmt.Errorf("seal state folder: %w", err))
	}
	return nil
}

// ReadSeal returns a folder's seal after comparing it with the files' names and
// sizes. Errors: [ErrUnsealed], [ErrCorrupted].
func ReadSeal(dir string) (Seal, error) {
	b, err := readBounded(filepath.Join(dir, SealName), maxSeal)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return Seal{}, Unsealed(dir, err)
		}
		return Seal{}, Corrupted(dir, err)
	}
	seal, err := decodeSeal(b)
	if err != nil {
		return Seal{}, Corrupted(dir, err)
	}
	if seal.Boot != bootID() {
		return Seal{}, Unsealed(dir, errors.New("it was written before the machine was started"))
	}
	for _, f := range seal.Files {
		info, err := os.Lstat(filepath.Join(dir, f.Name))
		if err != nil {
			return Seal{}, Corrupted(dir, err)
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size {
			return Seal{}, Corrupted(dir, fmt.Errorf("file %s has %d bytes instead of %d", f.Name, info.Size(), f.Size))
		}
		sum, err := sumOf(filepath.Join(dir, f.Name), f.Size)
		if err != nil {
			return Seal{}, Corrupted(dir, err)
		}
		if sum != f.Sum {
			return Seal{}, Corrupted(dir, fmt.Errorf("file %s has checksum %s instead of %s", f.Name, sum, f.Sum))
		}
	}
	return seal, nil
}

// sumOf returns the checksum of a file that is small enough for one, else "".
func sumOf(path string, size int64) (string, error) {
	if size > maxSummed {
		return "", nil
	}
	b, err := readBounded(path, maxSummed)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)), nil
}

// BreakSeal makes a folder unusable for a later process.
func BreakSeal(dir string) error {
	err := os.Remove(filepath.Join(dir, SealName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("break the seal of a state folder: %w", err)
	}
	return nil
}

// OpenFolder is how an engine takes a folder over: a missing one is made, an
// empty one taken, one with files must be sealed and loses its seal. It reports
// whether the folder is fresh.
func OpenFolder(dir string) (fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, Wrap(dir, fmt.Errorf("make state folder: %w", err))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("open state folder: %w", err)
	}
	if len(entries) == 0 {
		return true, nil
	}
	if _, err := ReadSeal(dir); err != nil {
		return false, err
	}
	return false, BreakSeal(dir)
}

// FillFolder makes dir, which must be missing or empty, from the files of a
// snapshot or download that lie elsewhere on this machine, and seals it.
// Immutable files are hard-linked where the file system can, others copied.
func FillFolder(dir, label string, files []File) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Wrap(dir, fmt.Errorf("make state folder: %w", err))
	}
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return Corrupted(dir, err)
		}
		to := filepath.Join(dir, f.Name)
		if err := LinkOrCopy(f.Path, to, f.Immutable); err != nil {
			return Wrap(dir, fmt.Errorf("fill state folder: %w", err))
		}
		info, err := os.Stat(to)
		if err != nil {
			return fmt.Errorf("fill state folder: %w", err)
		}
		if info.Size() != f.Size {
			return Corrupted(dir, fmt.Errorf("file %s has %d bytes instead of %d", f.Path, info.Size(), f.Size))
		}
	}
	return WriteSeal(dir, label)
}

// LinkOrCopy makes to, which must not exist, the same content as from: by a hard
// link if link is set and the file system can, else by copying.
func LinkOrCopy(from, to string, link bool) error {
	if link {
		err := os.Link(from, to)
		if err == nil || errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(to)
	}
	return err
}

// ListFiles makes the file list of a snapshot from a folder; immutable says
// which names are.
func ListFiles(dir string, immutable func(name string) bool) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]File, 0, len(entries))
	for _, entry := range entries {
		name := entry.Name()
		if name == SealName || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		files = append(files, File{
			Name: name, Path: filepath.Join(dir, name), Size: info.Size(), Immutable: immutable(name),
		})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	return files, nil
}

func checkName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%q is no file name", name)
	}
	return nil
}

// encodeSeal writes the version and a checksum on a line before the JSON.
func encodeSeal(s Seal) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("tidegate-seal %d %08x\n", sealVersion, crc32.Checksum(body, castagnoli))
	return append([]byte(head), body...), nil
}

func decodeSeal(b []byte) (Seal, error) {
	var version int
	var sum uint32
	head, body, ok := strings.Cut(string(b), "\n")
	if !ok {
		return Seal{}, errors.New("seal without a first line")
	}
	if n, err := fmt.Sscanf(head, "tidegate-seal %d %08x", &version, &sum); err != nil || n != 2 {
		return Seal{}, errors.New("seal with an unknown first line")
	}
	if version != sealVersion {
		return Seal{}, fmt.Errorf("seal of version %d, this program reads version %d", version, sealVersion)
	}
	if crc32.Checksum([]byte(body), castagnoli) != sum {
		return Seal{}, errors.New("seal with a wrong checksum")
	}
	var s Seal
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		return Seal{}, fmt.Errorf("decode seal: %w", err)
	}
	for _, f := range s.Files {
		if err := checkName(f.Name); err != nil {
			return Seal{}, err
		}
		if f.Size < 0 {
			return Seal{}, fmt.Errorf("seal with a file of %d bytes", f.Size)
		}
	}
	return s, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, err
}

// BootID identifies the run of the machine's kernel, "" where the system does
// not tell: a folder that was written before it proves nothing.
func BootID() string { return bootID() }

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
