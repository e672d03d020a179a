package filehold

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// lockFiles is how many files for flock there are. Writes of two names wait for each other if they
// have the same one.
const lockFiles = 64

// folder is a versioned.Store.
type folder struct {
	path  string
	mode  fs.FileMode          // the permissions of the folder
	clock func() time.Duration // since the start of the machine
	boot  string               // identifies the start of the machine
	held  clients
}

var (
	_ versioned.Store    = (*folder)(nil)
	_ versioned.Presence = (*folder)(nil)
)

func (d *folder) names() string { return filepath.Join(d.path, "names") }
func (d *folder) locks() string { return filepath.Join(d.path, "locks") }
func (d *folder) fresh() string { return filepath.Join(d.path, "new") }

func (d *folder) fileMode() fs.FileMode { return d.mode & 0o666 }

func (d *folder) file(name string) string { return filepath.Join(d.names(), fileName(name)) }

// Get reads the file of a name.
func (d *folder) Get(ctx context.Context, name string) (versioned.Item, error) {
	if err := ctx.Err(); err != nil {
		return versioned.Item{}, unsent.Error(err)
	}
	_, item, err := d.read(d.file(name))
	if err != nil {
		return versioned.Item{}, certain(err)
	}
	return item, nil
}

// read reads a file. It returns the name that the file is for, and a zero Item if there is no file.
func (d *folder) read(file string) (name string, item versioned.Item, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", versioned.Item{}, nil
	}
	if err != nil {
		return "", versioned.Item{}, err
	}
	line, document, _ := bytes.Cut(data, []byte("\n"))
	h, ok := parse(string(line))
	if !ok {
		return "", versioned.Item{}, fmt.Errorf("%s is no file of a lock: %w", file, driver.ErrMismatch)
	}
	age := time.Duration(-1)
	if h.boot == d.boot && d.boot != unknownBoot {
		age = max(d.clock()-h.written, 0)
	}
	return h.name, versioned.Item{Data: document, Version: h.version, Age: age}, nil
}

// Put writes the file of a name.
func (d *folder) Put(ctx context.Context, w versioned.Write) (versioned.Version, error) {
	if err := ctx.Err(); err != nil {
		return "", unsent.Error(err)
	}
	unlock, err := d.lock(ctx, w.Name)
	if err != nil {
		return "", certain(err)
	}
	defer unlock()
	file := d.file(w.Name)
	_, now, err := d.read(file)
	if err != nil {
		return "", certain(err)
	}
	if now.Version != w.At {
		return "", versioned.ErrVersion
	}
	h := header{version: versioned.Version(rand.Text()), boot: d.boot, written: d.clock(), name: w.Name}
	fresh, err := d.writeFresh(append([]byte(h.String()+"\n"), w.Data...))
	if err != nil {
		return "", certain(err)
	}
	if err := os.Rename(fresh, file); err != nil {
		_ = os.Remove(fresh)
		return "", certain(err)
	}
	if !w.Durable {
		return h.version, nil
	}
	return h.version, syncFolder(d.names())
}

// writeFresh writes a new file that is on the disk when it returns, and returns its path.
func (d *folder) writeFresh(data []byte) (path string, err error) {
	f, err := os.OpenFile(filepath.Join(d.fresh(), rand.Text()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, d.fileMode())
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(d.fileMode()) // the umask of the process does not matter
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// syncFolder makes the kernel write the entries of a folder to the disk.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lock waits for the flock of a name. The file of the lock is never renamed and never removed, so all
// processes lock the same file.
func (d *folder) lock(ctx context.Context, name string) (unlock func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	file := filepath.Join(d.locks(), fmt.Sprintf("%02d.lock", h.Sum32()%lockFiles))
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, d.fileMode())
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().Perm() != d.fileMode() {
		_ = f.Chmod(d.fileMode()) // only its owner may, and has done it
	}
	if err := flock(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// flock waits for the flock of a file.
func flock(ctx context.Context, f *os.File) error {
	const first, most = 50 * time.Microsecond, 2 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		locked, err := tryFlock(f)
		if locked || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Page reads the files of names.
func (d *folder) Page(ctx context.Context, prefix, after string, most int) ([]versioned.Named, error) {
	entries, err := os.ReadDir(d.names())
	if err != nil {
		return nil, certain(err)
	}
	files := make(map[string]string, len(entries)) // by the name of the lock
	for _, e := range entries {
		file := filepath.Join(d.names(), e.Name())
		name, whole := nameOf(e.Name())
		if !whole {
			if name, _, err = d.read(file); err != nil {
				continue // no file of a lock
			}
		}
		if name > after && strings.HasPrefix(name, prefix) {
			files[name] = file
		}
	}
	var page []versioned.Named
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if len(page) == most {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, unsent.Error(err)
		}
		if _, item, err := d.read(files[name]); err == nil && item.Version != "" {
			page = append(page, versioned.Named{Name: name, Item: item})
		}
	}
	return page, nil
}

// certain returns the error of a call that has changed nothing.
func certain(err error) error {
	if cause := cause(err); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return unsent.Error(err)
}

// header is the first line of a file.
type header struct {
	version versioned.Version // random: no two writes of all time have the same
	boot    string            // folder.boot of the writer
	written time.Duration     // folder.clock of the writer
	name    string
}

// String returns the line, which parse reads.
func (h header) String() string {
	return fmt.Sprintf("holdfast 1 %s %s %d %q", h.version, h.boot, int64(h.written), h.name)
}

func parse(line string) (h header, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 || fields[0] != marker || fields[1] != "1" {
		return h, false
	}
	written, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		return h, false
	}
	name, err := strconv.Unquote(fields[5])
	return header{versioned.Version(fields[2]), fields[3], time.Duration(written), name}, err == nil
}
