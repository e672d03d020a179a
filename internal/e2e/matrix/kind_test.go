package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// errNoneFree says that a plain semaphore has no permit.
var errNoneFree = fmt.Errorf("no permit is free: %w", holdfast.ErrBusy)

// ofKind waits for a lock of kind k.
func (c *client) ofKind(ctx context.Context, k kind) (*grip, error) {
	return c.locked(ctx, k, false)
}

// ofKindNow takes a lock of kind k only if it is free.
func (c *client) ofKindNow(ctx context.Context, k kind) (*grip, error) {
	return c.locked(ctx, k, true)
}

func (c *client) locked(ctx context.Context, k kind, now bool) (*grip, error) {
	l := c.locker
	switch k {
	case plain:
		return c.plainPermit(ctx, now)
	case several:
		return c.gripOfAll(holdfast.LockAll(ctx, []*holdfast.Mutex{l.Mutex(c.name + ":a"), l.Mutex(c.name + ":b"), l.RWMutex(c.name + ":c").Write}))
	case reentrant:
		return c.lockedTwice(ctx, now)
	default:
		lock, try := k.Calls(l, c.name, 1)
		if now {
			lock = try
		}
		return c.gripOf(lock(ctx))
	}
}

func (c *client) gripOf(k *holdfast.Lock, err error) (*grip, error) {
	if err != nil {
		return nil, err
	}
	return &grip{
		scenario: c.scenario, number: k.Token(), ctx: k.Context(context.Background()),
		err: k.Err, give: k.Unlock, remaining: k.Remaining, ended: make(chan struct{}),
	}, nil
}

func (c *client) gripOfAll(ks holdfast.Locks, err error) (*grip, error) {
	if err != nil {
		return nil, err
	}
	return &grip{
		scenario: c.scenario, number: ks[0].Token(), ctx: ks.Context(context.Background()),
		err: ks.Err, give: ks.Unlock, ended: make(chan struct{}),
	}, nil
}

// lockedTwice takes a lock and enters it again; the two are released together.
func (c *client) lockedTwice(ctx context.Context, now bool) (*grip, error) {
	ctx = holdfast.WithOwner(ctx)
	lock := func() (*holdfast.Lock, error) {
		if now {
			return c.locker.TryLock(ctx, c.name)
		}
		return c.locker.Lock(ctx, c.name)
	}
	k, err := lock()
	if err != nil {
		return nil, err
	}
	if _, err := lock(); err != nil {
		return nil, errors.Join(err, k.Unlock())
	}
	g, err := c.gripOf(k, nil)
	g.again = func() error {
		if _, err := lock(); err != nil {
			return err
		}
		return k.Unlock()
	}
	g.give = func() error {
		if err := k.Unlock(); err != nil {
			return err
		}
		return k.Unlock()
	}
	return g, err
}

// plainPermit takes the only permit of Redisson's semaphore.
func (c *client) plainPermit(ctx context.Context, now bool) (*grip, error) {
	s := c.store.redis.PlainSemaphore(c.name)
	if _, err := s.TrySet(ctx, 1); err != nil {
		return nil, err
	}
	if now {
		if ok, err := s.TryAcquire(ctx, 1); err != nil {
			return nil, err
		} else if !ok {
			return nil, errNoneFree
		}
	} else if err := s.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return &grip{
		scenario: c.scenario, err: func() error { return nil }, ended: make(chan struct{}),
		give: func() error { return s.Release(context.Background(), 1) },
	}, nil
}

// wantHeld fails unless the servers, or a majority of them, say that the lock is
// held by one owner with the right count.
func (s *scenario) wantHeld() {
	s.Helper()
	if s.server != nil {
		s.claimed(1)
		return
	}
	servers := s.keepers(s.name)
	right, wrong := 0, 0
	var shown []string
	for _, server := range servers {
		got, want := "", "1"
		switch s.kind {
		case permit:
			got = fmt.Sprint(server.Int("ZCARD", "{"+s.name+"}:timeout"))
			if free := server.String("GET", s.name); free != "0" {
				got += " and free: " + free
			}
		case plain:
			got, want = server.String("GET", s.name), "0"
		case several:
			want = "111"
			for _, part := range []string{":a", ":b", ":c"} {
				got += holds(s.keepers(s.name + part)[0].Map("HGETALL", s.name+part))
			}
		case reentrant:
			got, want = holds(server.Map("HGETALL", s.name)), "2"
		default:
			got = holds(server.Map("HGETALL", s.name))
		}
		switch {
		case got == want:
			right++
		case !s.ended(got):
			wrong++
		}
		shown = append(shown, got)
	}
	switch {
	case wrong > 0:
		breach(s.TB, "held with counts %q, want those of one owner", shown)
	case right <= len(servers)/2:
		s.Errorf("held with counts %q, want one owner", shown)
	}
}

// ended says that a record shows nothing but that a lease ended, which the
// machine can be the reason of; permits of a plain semaphore never end.
func (s *scenario) ended(record string) bool {
	switch s.kind {
	case permit:
		return strings.HasPrefix(record, "0")
	case several:
		return strings.Trim(record, "1") == ""
	case plain:
		return false
	default:
		return record == ""
	}
}

// holds returns the count of the only owner.
func holds(fields map[string]string) string {
	delete(fields, "mode")
	counts := ""
	for _, count := range fields {
		counts += count
	}
	return counts
}
