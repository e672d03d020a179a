package filehold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// arriveFor is how long a client tries to lock its file. Others lock it for a moment, to find out
// whether it has ended.
const arriveFor = time.Second

// clients are the files of the clients of this process. Each is locked, by flock(2), until the process
// ends, and the processes that have inherited the file. No such file is renamed, and a file is removed
// only when nobody can need it any more.
type clients struct {
	mu    sync.Mutex
	files []*os.File
}

func (d *folder) clients() string { return filepath.Join(d.path, "clients") }

// Arrive makes and locks the file of a client.
func (d *folder) Arrive(client string) error {
	f, err := os.OpenFile(filepath.Join(d.clients(), fileName(client)), os.O_CREATE|os.O_RDWR, d.fileMode())
	if err != nil {
		return certain(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), arriveFor)
	defer cancel()
	if err := errors.Join(f.Chmod(d.fileMode()), flock(ctx, f)); err != nil {
		return certain(errors.Join(fmt.Errorf("client %q: %w", client, err), f.Close()))
	}
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	d.held.files = append(d.held.files, f)
	return nil
}

// Departed reports whether nobody has the file of a client open any more. It returns false if there is
// no file.
func (d *folder) Departed(client string) bool {
	f, err := os.OpenFile(filepath.Join(d.clients(), fileName(client)), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	locked, err := tryFlock(f)
	return locked && err == nil
}

// departedFor is how old the file of a client is that nobody can need any more: a lease may outlast its
// process, but seldom by that time.
const departedFor = 7 * 24 * time.Hour

// removeClients removes the files of clients that ended long ago.
func (d *folder) removeClients() error {
	entries, err := os.ReadDir(d.clients())
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < departedFor {
			continue
		}
		if err != nil {
			return err
		}
		if name, whole := nameOf(e.Name()); whole && d.Departed(name) {
			_ = os.Remove(filepath.Join(d.clients(), e.Name())) // another process may have removed it
		}
	}
	return nil
}
