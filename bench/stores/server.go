// Package stores starts the stores that locks are measured in. They have the settings
// that they have by default: what is written is on the disk before it is answered, but
// for Redis, whose default is another. Settings.SkipDisk changes that.
package stores

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Server is a store that was started. It must be closed.
type Server interface {
	// Reach says in t how clients reach the server.
	Reach(t *peer.Target)
	// Empty removes what the sample before has left.
	Empty(ctx context.Context) error
	// Done returns what the server has done since it was started. What Empty and Done
	// themselves ask for does not count, or a constant of it.
	Done(ctx context.Context) (Work, error)
	// PID returns the process, whose children belong to the server too.
	PID() int
	// Close ends the server, and waits until it is gone.
	Close()
}

// Work is what a server has done so far.
type Work struct {
	Requests int64         // of clients; in Redis commands, those of scripts included
	Calls    int64         // of scripts; 0 but in Redis
	Accepted int64         // connections of clients; 0 but in Redis
	CPU      time.Duration // 0 where there is no /proc
}

// Settings say how to start a store.
type Settings struct {
	// The paths of programs that no package of a system has.
	Etcd string // the program
	Jars string // the folder with the jars of ZooKeeper

	// SkipDisk says that a store does not wait until the disk has what is written, as with a disk
	// in memory. A disk may take longer than all the rest of a call, and so hide what a lock costs.
	// Redis is started as always.
	SkipDisk bool
}

// Start starts a store with its data below dir, which is the caller's to remove. For
// Redis the error is redistest.ErrMissing where there is no redis-server.
func Start(store peer.Store, settings Settings, dir string) (Server, error) {
	dir = filepath.Join(dir, string(store))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	switch store {
	case peer.Redis:
		return startRedis(dir)
	case peer.Etcd:
		return startEtcd(settings, dir)
	case peer.ZooKeeper:
		return startZooKeeper(settings, dir)
	case peer.PostgreSQL:
		return startPostgreSQL(settings)
	case peer.MySQL:
		return startMySQL(settings)
	default:
		return nil, fmt.Errorf("there is no store %q", store)
	}
}

// startLimit bounds how long a server may take until it answers.
const startLimit = 30 * time.Second

// until returns what child.Program.Serve calls: it returns when ready returns nil.
func until(ready func(context.Context) error) func(done <-chan struct{}) error {
	return func(done <-chan struct{}) error {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		for {
			err := ready(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-done:
				return fmt.Errorf("it ended: %w", err)
			case <-ctx.Done():
				return fmt.Errorf("it does not answer: %w", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}
