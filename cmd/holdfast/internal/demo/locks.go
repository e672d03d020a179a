package demo

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold"
)

// leaseElsewhere is the lease of the lock whose holder is paused, in a store that is not
// Redis. Some of these keep only whole seconds, and at least two.
const leaseElsewhere = 2 * time.Second

// sharedName is a name of the lock that all demos share.
const sharedName = "holdfast-demo:" + lockName

// locksName returns the name of the lock in a store that is not Redis. A database keeps a row
// for each name that was ever locked, so all demos use one name there.
func locksName(a access.Access, k keys) string {
	if kind, _ := open.KindOf(a.URL); kind == open.Etcd {
		return k.lock()
	}
	return sharedName
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

// openLocks opens the store of the locks. The caller must call shut to close it.
func (w *worker) openLocks(ctx context.Context) (shut func(), err error) {
	o := &holdfast.Options{TTL: w.Lease, Note: w.Name}
	if w.Locks.URL != "" {
		target, err := open.Parse(open.Request{Access: w.Locks, TTL: w.Lease})
		if err != nil {
			return nil, err
		}
		s, err := target.Open(ctx)
		if err != nil {
			return nil, err
		}
		w.lock, w.locker = locksName(w.Locks, w.Keys), holdfast.New(s.Backend, o)
		return s.Close, nil
	}
	conn, err := w.Access.Open(ctx)
	if err != nil {
		return nil, err
	}
	wire := recorder{network{conn, &w.cut}, &w.touched, func(key string) { w.report(message{Kind: touched, Text: key}) }}
	backend := redishold.New(wire, &redishold.Options{KeyPrefix: w.Keys.Prefix})
	shut = conn.Close
	if w.Log {
		log := audit.New(backend, nil)
		o.Observe = log.Observe
		shut = func() {
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
			defer stop()
			_ = w.locker.Drain(last) // the lease ends what is left
			_ = log.Flush(last)      // entries that cannot be written are missing
			conn.Close()
		}
	}
	w.lock, w.locker = w.Keys.name(), holdfast.New(backend, o)
	return shut, nil
}

// introduceLocks prints where the locks are, and how to watch them, for a store that is not
// Redis.
func (d *demo) introduceLocks() {
	name := locksName(d.Locks, d.shop.keys)
	d.printf("Locks: %s. The shop keeps its stock in this process.", redisurl.Redacted(d.Locks.URL))
	d.printf("")
	d.printf("Look yourself, in another terminal (the lock is held still for %s in round 3):", d.Look)
	kind, _ := open.KindOf(d.Locks.URL)
	if kind == open.Etcd {
		p, _ := redisurl.Cut(d.Locks.URL)
		d.printf("  etcdctl --endpoints=%s watch --prefix %s/", p.Hosts, name)
		return
	}
	u, err := url.Parse(d.Locks.URL)
	table := "holdfast_locks"
	if err == nil {
		table = cmp.Or(u.Query().Get("table"), table)
	}
	d.printf("  SELECT * FROM %s WHERE name = '%s';", table, name)
	d.printf("That row stays, as %s counts its tokens in it.", kind.Title())
}

// lookElsewhere waits for Look while alice holds the lock in a store that is not Redis. The
// demo does not read the lock there.
func (t *takeover) lookElsewhere(ctx context.Context) error {
	timer := time.NewTimer(t.Look)
	defer timer.Stop()
	t.printf("She keeps it for %s, and renews it meanwhile.", t.Look)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case m, ok := <-t.alice.messages:
		return t.lostEarly(m, ok)
	}
}
