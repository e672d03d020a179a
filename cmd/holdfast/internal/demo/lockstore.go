package demo

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
)

// sharedName is a name of the lock that all demos share.
const sharedName = "holdfast-demo:" + lockName

// nameOfLock returns the name of the lock. A database keeps a row for each name that was ever
// locked, so all demos use one name there.
func (d *demo) nameOfLock() string {
	switch kind, _ := open.KindOf(d.Locks.URL); {
	case d.Locks.URL == "":
		return d.shop.keys.name()
	case kind == open.Etcd:
		return d.shop.keys.lock()
	default:
		return sharedName
	}
}

// Try takes the lock of the demo in a store that is not Redis, and releases it. It returns an
// error of Target.Open or TryLock if the demo cannot run there. If another demo holds the
// lock, Try returns nil.
func Try(ctx context.Context, t *open.Target) error {
	s, err := t.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	locker := holdfast.New(s.Backend, nil)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer func() { _ = locker.Drain(ctx) }() // the lease ends what is left
	lock, err := locker.TryLock(ctx, sharedName)
	switch {
	case errors.Is(err, holdfast.ErrBusy):
		return nil
	case err != nil:
		return err
	}
	return lock.Unlock()
}
