package storestest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// pair is two clients of one store.
type pair struct {
	*testing.T
	ours, theirs *holdfast.Locker
	store        driver.Backend // of ours
	waits        chan string    // the names for which theirs has begun to wait
}

// checks are what a program does with locks. Those that need a feature name it. What stores
// promise of names, tokens, waiters and counts is in package drivertest.
func checks() map[string]struct {
	needs func(driver.Backend) bool
	check func(*pair)
} {
	type check = struct {
		needs func(driver.Backend) bool
		check func(*pair)
	}
	return map[string]check{
		"one holder":            {nil, oneHolder},
		"waiting":               {nil, waiting},
		"giving up":             {nil, givingUp},
		"Do":                    {nil, doing},
		"re-entry":              {nil, reentry},
		"fixed lease":           {nil, fixedLease},
		"at most":               {inRedisOrEtcd, atMost},
		"LockAll":               {nil, lockAll},
		"fair":                  {hasFair, fairOrder},
		"read-write":            {hasReaders, readWrite},
		"reader beside its own": {hasReaders, readerBesideItsOwn},
		"semaphore":             {hasPermits, semaphore},
		"semaphore Do":          {hasPermits, semaphoreDo},
	}
}

func hasFair(b driver.Backend) bool    { return b.Info().Caps.Fair }
func hasReaders(b driver.Backend) bool { return b.Info().Caps.Shared }
func hasPermits(b driver.Backend) bool { return b.Info().Caps.Permits }

// inRedisOrEtcd chooses a store whose leases end by themselves, and one with sessions: the check
// takes seconds.
func inRedisOrEtcd(b driver.Backend) bool {
	info := b.Info()
	return info.Name == "redis" && info.Layout == "" || info.Name == "etcd"
}

func TestSameProgramOnEveryStore(t *testing.T) {
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			open := start(t)
			p := pair{waits: make(chan string, 100)}
			ours, theirs := open(t), open(t)
			p.store = ours
			p.ours = holdfast.New(ours, nil)
			p.theirs = holdfast.New(theirs, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
				if e.Type == holdfast.EventWait {
					p.waits <- e.Name
				}
			}})
			for name, c := range checks() {
				if c.needs == nil || c.needs(ours) {
					p := p
					t.Run(name, func(t *testing.T) {
						p.T = t
						c.check(&p)
					})
				}
			}
			must.Drain(t, p.ours)
			must.Drain(t, p.theirs)
		})
	}
}

// busy wants a lock that is held to be refused.
func (p *pair) busy(what string, _ *holdfast.Lock, err error) {
	p.Helper()
	if !errors.Is(err, holdfast.ErrBusy) {
		p.Fatalf("%s: got error %v, want ErrBusy", what, err)
	}
}

// got wants a lock, and releases it.
func (p *pair) got(what string, k *holdfast.Lock, err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%s: got error %v, want the lock", what, err)
	}
	must.Unlock(p, k)
}

// begin calls lock in the background, and returns when it has begun to wait for name.
// The function that it returns waits for what came of it.
func (p *pair) begin(name string, lock func(context.Context) (*holdfast.Lock, error)) (end func() *holdfast.Lock) {
	p.Helper()
	type answer struct {
		lock *holdfast.Lock
		err  error
	}
	answers := make(chan answer, 1)
	ctx := await.Context(p, 20*time.Second)
	go func() {
		k, err := lock(ctx)
		answers <- answer{k, err}
	}()
	for waiting := ""; waiting != name; {
		select {
		case waiting = <-p.waits:
		case a := <-answers:
			p.Fatalf("got %v, error %v, want that it waits", a.lock, a.err)
		}
	}
	return func() *holdfast.Lock {
		p.Helper()
		a := <-answers
		if a.err != nil {
			p.Fatalf("after it waited: got error %v, want the lock", a.err)
		}
		return a.lock
	}
}

func oneHolder(p *pair) {
	ctx := p.Context()
	first := must.Lock(p, p.ours, "one")
	if err := first.Err(); err != nil || first.Remaining() <= 0 || first.Context(ctx).Err() != nil {
		p.Errorf("a held lock: got %v, %v left, %v", err, first.Remaining(), first.Context(ctx).Err())
	}
	_, err := p.theirs.TryLock(ctx, "one")
	p.busy("TryLock of another client", nil, err)
	var busy *holdfast.BusyError
	if !errors.As(err, &busy) || busy.Holder == "" {
		p.Errorf("got %v, want who holds it", err)
	}
	k, err := p.ours.TryLock(ctx, "one")
	p.busy("TryLock of the same client", k, err)

	held := first.Context(ctx)
	must.Unlock(p, first)
	if !errors.Is(context.Cause(held), holdfast.ErrUnlocked) || !errors.Is(first.Err(), holdfast.ErrUnlocked) {
		p.Errorf("after Unlock: got %v and %v, want ErrUnlocked", context.Cause(held), first.Err())
	}
	if err := first.Unlock(); !errors.Is(err, holdfast.ErrUnlocked) {
		p.Errorf("a second Unlock: got %v, want ErrUnlocked", err)
	}
	k, err = p.theirs.TryLock(ctx, "one")
	p.got("TryLock of a free lock", k, err)
}

func waiting(p *pair) {
	first := must.Lock(p, p.ours, "wait")
	end := p.begin("wait", func(ctx context.Context) (*holdfast.Lock, error) { return p.theirs.Lock(ctx, "wait") })
	must.Unlock(p, first)
	must.Unlock(p, end())
}

func givingUp(p *pair) {
	first := must.Lock(p, p.ours, "give up")
	k, err := p.theirs.Lock(p.Context(), "give up", holdfast.Wait(100*time.Millisecond))
	p.busy("Lock with a limit", k, err)
	ctx, cancel := context.WithTimeout(p.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.theirs.Lock(ctx, "give up"); !errors.Is(err, context.DeadlineExceeded) {
		p.Errorf("Lock with a context that ends: got %v, want DeadlineExceeded", err)
	}
	must.Unlock(p, first)
	k, err = p.ours.TryLock(p.Context(), "give up", holdfast.Wait(5*time.Second)) // what is left of them may be cleaned up yet
	p.got("Lock after others gave up", k, err)
}

func doing(p *pair) {
	failed := errors.New("failed")
	got, err := holdfast.Do(p.Context(), p.ours, "do", func(ctx context.Context, _ *holdfast.Lock) (int, error) {
		_, err := p.theirs.TryLock(ctx, "do")
		p.busy("TryLock inside of Do", nil, err)
		return 42, failed
	})
	if got != 42 || !errors.Is(err, failed) {
		p.Errorf("got %v and %v, want what the function returned", got, err)
	}
	k, err := p.theirs.TryLock(p.Context(), "do")
	p.got("TryLock after Do", k, err)
	p.does("mutex", p.ours.Mutex("do"), p.theirs.Mutex("do").TryLock)
}

// doer is a lock of any kind.
type doer interface {
	Name() string
	Do(ctx context.Context, fn func(context.Context, *holdfast.Lock) error, opts ...holdfast.Option) error
}

// does wants that Do of a lock has the lock, which try is refused meanwhile, and that it
// returns what its function does.
func (p *pair) does(what string, m doer, try func(context.Context, ...holdfast.Option) (*holdfast.Lock, error)) {
	p.Helper()
	failed := errors.New("failed")
	err := m.Do(p.Context(), func(ctx context.Context, k *holdfast.Lock) error {
		if k.Name() != m.Name() {
			p.Errorf("%s: got lock %q in Do of %q", what, k.Name(), m.Name())
		}
		_, err := try(ctx)
		p.busy(what+": another client inside of Do", nil, err)
		return failed
	})
	if !errors.Is(err, failed) {
		p.Errorf("%s: got %v from Do, want what the function returned", what, err)
	}
	k, err := try(p.Context())
	p.got(what+": another client after Do", k, err)
}

func reentry(p *pair) {
	ctx := holdfast.WithOwner(p.Context())
	var locks []*holdfast.Lock
	for range 3 {
		k, err := p.ours.TryLock(ctx, "again")
		if err != nil {
			p.Fatalf("TryLock of the same owner: got error %v", err)
		}
		locks = append(locks, k)
	}
	for range 2 {
		must.Unlock(p, locks[0])
		locks = locks[1:]
		_, err := p.theirs.TryLock(p.Context(), "again")
		p.busy("TryLock before the last Unlock", nil, err)
	}
	must.Unlock(p, locks[0])
	k, err := p.theirs.TryLock(p.Context(), "again")
	p.got("TryLock after the last Unlock", k, err)
}

func fixedLease(p *pair) {
	const d = 2 * time.Second
	began := time.Now()
	first := must.Lock(p, p.ours, "lease", holdfast.FixedLease(d))
	next := must.Lock(p, p.theirs, "lease") // it waits for the end
	if took := time.Since(began); took < d*9/10 || first.Err() == nil {
		p.Errorf("another had the lock after %v, and the first was %v; want that the lease of %v ends", took, first.Err(), d)
	}
	must.Unlock(p, next)
	if err := first.Unlock(); err == nil {
		p.Error("Unlock after the end: got no error")
	}
}

// atMost has a lock renewed to its end. A renewal for the whole TTL would make it last for
// another ninth of that at least.
func atMost(p *pair) {
	const name, ttl = "at most", 4500 * time.Millisecond
	ours, d, wakes := p.ours, 1500*time.Millisecond, time.Second
	if p.store.Info().SessionTTL == 0 {
		ours, d, wakes = holdfast.New(p.store, &holdfast.Options{TTL: ttl}), ttl*4/3, ttl/9-100*time.Millisecond
	}
	w := await.NewWatch(p)
	k := must.Lock(p, ours, name, holdfast.AtMost(d))
	next := p.begin(name, func(ctx context.Context) (*holdfast.Lock, error) { return p.theirs.Lock(ctx, name) })()
	took, late := time.Since(w.Began), w.Late()
	if err := k.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		p.Errorf("Unlock after another client has the lock: got %v, want ErrLost", err)
	}
	if took < d-late || took > d+wakes+late {
		p.Errorf("granted again after %v, want %v; no processor for %v", took, d, late)
	}
	must.Unlock(p, next)
	must.Drain(p, ours)
}

func lockAll(p *pair) {
	ctx := await.Context(p, 20*time.Second)
	mutexes := func(l *holdfast.Locker) []*holdfast.Mutex {
		return []*holdfast.Mutex{l.Mutex("all-1"), l.Mutex("all-2"), l.Mutex("all-3")}
	}
	second := must.Lock(p, p.ours, "all-2")
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := holdfast.LockAll(short, mutexes(p.theirs)); !errors.Is(err, context.DeadlineExceeded) {
		p.Fatalf("LockAll while one is held: got %v, want DeadlineExceeded", err)
	}
	for _, name := range []string{"all-1", "all-3"} {
		k, err := p.ours.TryLock(ctx, name, holdfast.Wait(5*time.Second))
		p.got("TryLock of one that was not to be had with the others", k, err)
	}
	must.Unlock(p, second)
	locks, err := holdfast.LockAll(ctx, mutexes(p.theirs))
	if err != nil {
		p.Fatalf("LockAll: %v", err)
	}
	k, err := p.ours.TryLock(ctx, "all-3")
	p.busy("TryLock of one of them", k, err)
	held := locks.Context(ctx)
	if locks.Err() != nil || held.Err() != nil {
		p.Errorf("held locks: got %v and %v", locks.Err(), held.Err())
	}
	if err := locks.Unlock(); err != nil {
		p.Errorf("Unlock of all: %v", err)
	}
	if !errors.Is(locks.Err(), holdfast.ErrUnlocked) || !errors.Is(context.Cause(held), holdfast.ErrUnlocked) {
		p.Errorf("after Unlock of all: got %v and %v, want ErrUnlocked", locks.Err(), context.Cause(held))
	}
}
