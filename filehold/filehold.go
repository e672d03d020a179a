// Package filehold keeps locks in a folder on a local disk, for programs of one machine that have no
// server. It works on Linux.
//
//	backend, err := filehold.Open("/var/lib/shop/locks", filehold.Options{})
//	if err != nil {
//		return err
//	}
//	locker := holdfast.New(backend, nil)
//
// All kinds of lock work: mutexes, fair mutexes, read-write locks, semaphores and latches. All
// programs that use the same folder on the same machine share them, also in several containers and
// of several users.
//
// # The folder
//
// Each name has a file, which is a line about the file and a document in JSON. A change writes a new
// file and renames it, so a reader sees the old document or the new one, and a program that is
// killed at any instruction leaves one of them. The file is on the disk before a call returns. So
// after a power failure a grant and its fencing token are there, and at most the release of a lock is
// lost: then the name is free when its lease ends.
//
// Files whose names end in ".lock" are for flock(2), and are never renamed. The file of a name stays
// when the name is free, because it has the last fencing token. It has some hundred bytes.
//
// # A process that dies
//
// Each Locker has a file in the folder that is locked as long as its process lives. When the kernel
// has released that lock, the process has ended, and others get its locks at once, before the leases
// end. A program that the process started goes on with the lock only if it has inherited the file. A
// process that hangs, or is stopped, keeps its locks until their leases end.
//
// # Where it works
//
// Open accepts only file systems on which it was tested: ext4, tmpfs and overlay. It refuses all
// others by their names. In a network file system, flock and rename may not exclude programs on
// another machine, or not at all.
//
// New files have the permissions of the folder. So a folder that a group may write is for all users
// of that group. Somebody who may write the folder can end every lock in it.
//
// # What is not promised
//
// A lease runs by the clock of the
// machine that counts since its start, so a clock on the wall that is set does not matter. After a
// start of the machine, leases that were granted before end by the clock on the wall, and ten seconds
// later than they would have.
package filehold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// Options of a Backend. The zero value has useful defaults.
type Options struct{}

// engine is an alias of versioned.Engine. Backend embeds it for its methods; the field is not
// exported.
type engine = versioned.Engine

// Backend keeps locks in a folder. It is a driver.Backend, a driver.Batcher, a driver.Resizer, a
// driver.Latcher, a driver.Drainer and an admin.Source. Several goroutines may call its methods at
// once. It has one open file for each Locker, until the process ends, and needs no Close.
type Backend struct {
	*engine
}

// Open returns a Backend over the folder with this path. It creates the folder if there is none, but
// not the folder above it. A folder with other files in it is refused, and so is a file system that
// is not known to work, see the text of the package. Such an error is driver.ErrRefused; an error of
// the operating system is wrapped.
func Open(path string, _ Options) (*Backend, error) {
	d, err := openFolder(path)
	if err != nil {
		return nil, fmt.Errorf("filehold: %w", err)
	}
	return &Backend{engine: versioned.New(d, versioned.Limits{Name: "file"})}, nil
}

// unknownBoot is folder.boot if the system does not say it.
const unknownBoot = "-"

// marker is a file that says that the folder is one of locks, and which layout it has.
const (
	marker = "holdfast"
	layout = "folder of locks, layout 1\n"
)

// openFolder returns the folder with this path, which it creates if there is none.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // the umask of the caller decides
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, refused("%s is not a folder", path)
	}
	if err := suitable(path); err != nil {
		return nil, err
	}
	d := &folder{path: path, mode: info.Mode().Perm(), clock: readClock, boot: bootID()}
	if err := d.check(); err != nil {
		return nil, err
	}
	for _, sub := range []string{d.names(), d.locks(), d.fresh(), d.clients()} {
		if err := d.mkdir(sub); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(d.clean(), d.removeClients())
}

// check returns an error if the folder has other files than those of locks. It writes the marker if
// the folder is empty.
func (d *folder) check() error {
	if marked, err := d.marked(); marked || err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == marker {
			continue
		}
		if marked, err := d.marked(); marked || err != nil { // another process has begun to use the folder meanwhile
			return err
		}
		return refused("%s has other files in it, such as %q: locks need a folder of their own", d.path, e.Name())
	}
	return d.write(filepath.Join(d.path, marker), []byte(layout))
}

// marked reports whether the folder has the marker, which is there before all other files. The marker
// of another layout is an error.
func (d *folder) marked() (bool, error) {
	data, err := os.ReadFile(filepath.Join(d.path, marker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case len(data) > 0 && string(data) != layout:
		return false, refused("%s was made by a later version of Holdfast: %q", d.path, data)
	}
	return len(data) > 0, nil // another process is about to write an empty one
}

// write writes a small file that all writers write with the same data.
func (d *folder) write(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, d.fileMode())
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(d.fileMode()), f.Sync(), f.Close(), syncFolder(filepath.Dir(file)))
}

// mkdir makes a folder in the folder, if there is none.
func (d *folder) mkdir(path string) error {
	err := os.Mkdir(path, d.mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, d.mode), syncFolder(filepath.Dir(path)))
}

// leftFor is how old a file in the folder of new files is that a killed process has left.
const leftFor = time.Minute

// clean removes files that killed processes have left.
func (d *folder) clean() error {
	entries, err := os.ReadDir(d.fresh())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftFor {
			_ = os.Remove(filepath.Join(d.fresh(), e.Name())) // another process may have removed it
		}
	}
	return nil
}

// refused returns the error for a folder that cannot be used.
func refused(format string, args ...any) error {
	return fmt.Errorf("%s: %w, %w", fmt.Sprintf(format, args...), driver.ErrRefused, driver.ErrNotExecuted)
}
