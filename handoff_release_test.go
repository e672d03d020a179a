package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// burst is how long the goroutines of a process go first after a grant.
const burst = 5 * time.Millisecond

// twoSteps is a store that releases in two steps. It records the order and the times of its
// calls.
type twoSteps struct {
	*faulty.Store
	start time.Time

	mu     sync.Mutex
	log    []step
	finish func() (others int, err error) // the answer after the release
	begin  func()                         // called before the release
}

// step is one call of a store, by its name.
type step struct {
	what string
	at   time.Duration
}

func newTwoSteps(others int) *twoSteps {
	return &twoSteps{Store: faulty.New(), start: time.Now(), finish: func() (int, error) { return others, nil }}
}

func (s *twoSteps) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, step{what, time.Since(s.start)})
}

// since returns the calls since the last call of since, and the time from the first to the
// last of them.
func (s *twoSteps) since() (whats []string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range s.log {
		whats = append(whats, step.what)
		took = step.at - s.log[0].at
	}
	s.log = nil
	return whats, took
}

// answers sets what releases answer from now on, and how long that takes.
func (s *twoSteps) answers(others int, err error, after time.Duration) {
	s.set(func() {
		s.finish = func() (int, error) {
			time.Sleep(after)
			return others, err
		}
	})
}

func (s *twoSteps) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

func (s *twoSteps) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	s.note("try")
	return s.Store.Try(ctx, c)
}

func (s *twoSteps) Release(ctx context.Context, c driver.Claim) error {
	s.note("release")
	return s.Store.Release(ctx, c)
}

func (s *twoSteps) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	s.mu.Lock()
	begin, end := s.begin, s.finish
	s.mu.Unlock()
	if begin != nil {
		begin()
	}
	err := s.Backend.Release(ctx, c)
	if c.Quiet {
		s.note("quiet")
	}
	s.note("began")
	return func() (int, error) {
		others, spoilt := end()
		s.note("finished")
		return others, errors.Join(err, spoilt)
	}
}

func (s *twoSteps) ReleaseNow(ctx context.Context, c driver.Claim) (others int, err error) {
	return s.StartRelease(ctx, c)()
}

func (s *twoSteps) Wake(context.Context, driver.Claim) error {
	s.note("wake")
	return nil
}

var _ driver.Releaser = (*twoSteps)(nil)

// standing starts n goroutines that lock "job" with l, one after the other. It returns a
// channel with their locks.
func standing(t *testing.T, l *holdfast.Locker, n int) <-chan *holdfast.Lock {
	t.Helper()
	got := make(chan *holdfast.Lock)
	for range n {
		go func() { got <- must.Lock(t, l, "job") }()
		synctest.Wait()
	}
	return got
}

// The next goroutine asks as soon as the release is sent if no other client waits, after
// the answer if that is not known, and later still if others wait.
func TestReleaseInTwoSteps(t *testing.T) {
	const (
		ms = time.Millisecond
		us = time.Microsecond
	)
	tests := []struct {
		name   string
		others int           // how many other clients waited at the last release
		trip   time.Duration // the time of a round trip
		want   []string
		took   time.Duration // from the release to the try
	}{
		{"it is not known who waits elsewhere", -1, ms, []string{"began", "finished", "try"}, ms},
		{"nobody waits elsewhere", 0, ms, []string{"began", "try", "finished"}, ms},
		{"others wait, at once", 3, 0, []string{"began", "finished", "try"}, 3 * ms},
		{"many wait, at once", 1000, 0, []string{"began", "finished", "try"}, 5 * ms},
		{"another waits, near", 1, 10 * us, []string{"began", "finished", "try"}, 10*us + ms},
		{"others wait", 1, ms, []string{"began", "finished", "try"}, ms + 3*ms},
		{"others wait, far away", 1, 100 * ms, []string{"began", "finished", "try"}, 100*ms + 5*ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTwoSteps(-1)
				l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
				first := must.Lock(t, l, "job")
				got := standing(t, l, 3)
				store.answers(tt.others, nil, 0)
				must.Unlock(t, first)
				second := <-got
				store.answers(tt.others, nil, tt.trip)
				time.Sleep(burst)
				store.since()
				must.Unlock(t, second)
				third := <-got
				time.Sleep(burst)
				whats, took := store.since()
				if !slices.Equal(whats, tt.want) || took != tt.took {
					t.Errorf("got %v within %v, want %v within %v", whats, took, tt.want, tt.took)
				}
				must.Unlock(t, third)
				last := <-got
				time.Sleep(burst)
				store.since()
				must.Unlock(t, last)
				if whats, _ := store.since(); !slices.Equal(whats, []string{"began", "finished"}) {
					t.Errorf("with nobody behind: got %v, want a release", whats)
				}
			})
		})
	}
}

// If it is not known whether other clients wait, this process yields after Handoff.For. The
// time to the next yield doubles while no client uses one.
func TestOthersMayWait(t *testing.T) {
	const trip, hold = time.Millisecond, 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(-1)
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
		k := must.Lock(t, l, "job")
		got := standing(t, l, 90)
		store.answers(-1, nil, trip)
		next := func() (yielded bool) {
			time.Sleep(hold)
			released := time.Now()
			must.Unlock(t, k)
			k = <-got
			took := time.Since(released)
			if took != trip && took != trip+3*trip {
				t.Fatalf("asks after %v", took)
			}
			return took > trip
		}
		yields := func(holds int) (after []int) {
			for i := range holds {
				if next() {
					after = append(after, i)
				}
			}
			return after
		}
		if got, want := yields(80), []int{2, 7, 17, 37, 57, 77}; !slices.Equal(got, want) { // after 50, 100, 200 and 400 ms
			t.Errorf("this process yielded after the holds %v, want after %v", got, want)
		}

		elsewhere := holdfast.New(store.Backend, nil)
		go func() {
			k := must.Lock(t, elsewhere, "job")
			time.Sleep(hold)
			must.Unlock(t, k)
		}()
		synctest.Wait()
		must.Unlock(t, k)
		k = <-got
		if got, want := yields(8), []int{2, 7}; !slices.Equal(got, want) {
			t.Errorf("after a yield that was used, this process yielded after the holds %v, want after %v", got, want)
		}
		must.Unlock(t, k)
		must.Unlock(t, <-got)
	})
}

// releaseCounter is a store that reports at once how many other clients wait.
type releaseCounter struct {
	*twoSteps
	others  int
	waiters int
}

func (s *releaseCounter) Waiter(c driver.Claim) driver.Waiter {
	s.waiters++
	return s.twoSteps.Waiter(c)
}

func (s *releaseCounter) StartRelease(ctx context.Context, c driver.Claim) func() (int, error) {
	err := s.Release(ctx, c)
	return func() (int, error) { return s.others, err }
}

func (s *releaseCounter) ReleaseNow(ctx context.Context, c driver.Claim) (int, error) {
	return s.others, s.Release(ctx, c)
}

// A client that has just released a lock yields to other clients before it takes the lock
// again, also if no other goroutine of its process waited.
func TestOthersGoFirstWithoutALocalQueue(t *testing.T) {
	tests := []struct {
		name   string
		others int
		hold   time.Duration
		pause  time.Duration // after the release
		lock   func(l *holdfast.Locker) (*holdfast.Lock, error)
		want   time.Duration // until it asks
		hears  int           // how often it begins to listen
	}{
		{"others wait", 2, 0, 0, lockJob, 2 * time.Millisecond, 1},
		{"others waited some time ago", 2, 0, time.Second, lockJob, 0, 0},
		{"nobody waits", 0, time.Second, 0, lockJob, 0, 0},
		{"it is not known", -1, 0, 0, lockJob, 0, 0},
		{"it is not known, and it was held for long", -1, 50 * time.Millisecond, 0, lockJob, 200 * time.Microsecond, 0},
		{"others wait, and it does not", 2, 0, 0, func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.TryLock(context.Background(), "job")
		}, 0, 0},
		{"others wait, and it has less time", 2, 0, 0, func(l *holdfast.Locker) (*holdfast.Lock, error) {
			return l.TryLock(context.Background(), "job", holdfast.Wait(100*time.Microsecond))
		}, 100 * time.Microsecond, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &releaseCounter{newTwoSteps(-1), tt.others, 0}
				l := holdfast.New(store, nil)
				k := must.Lock(t, l, "job")
				time.Sleep(tt.hold)
				must.Unlock(t, k)
				time.Sleep(tt.pause)
				start := time.Now()
				k, err := tt.lock(l)
				if err != nil || time.Since(start) != tt.want {
					t.Fatalf("asks after %v (error %v), want after %v", time.Since(start), err, tt.want)
				}
				if store.waiters != tt.hears {
					t.Errorf("begins to listen %d times, want %d", store.waiters, tt.hears)
				}
				must.Unlock(t, k)
			})
		})
	}
}

func lockJob(l *holdfast.Locker) (*holdfast.Lock, error) { return l.Lock(context.Background(), "job") }

// Other clients get the lock after a release, if they are known to wait.
func TestOthersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTwoSteps(1)
		l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: 2}})
		elsewhere := holdfast.New(store.Backend, nil)
		var order []string // the lock guards it
		var wg sync.WaitGroup
		first := must.Lock(t, l, "job")
		wg.Go(func() {
			for range 3 {
				k := must.Lock(t, elsewhere, "job")
				order = append(order, "elsewhere")
				must.Unlock(t, k)
			}
		})
		synctest.Wait()
		for range 9 {
			wg.Go(func() {
				k := must.Lock(t, l, "job")
				order = append(order, "here")
				time.Sleep(burst) // so that the next client waits again, and this process goes first no longer
				must.Unlock(t, k)
			})
			synctest.Wait()
		}
		must.Unlock(t, first)
		wg.Wait()
		var want []string
		for range 3 { // the other client asks again at once, while the next goroutine here still yields
			want = append(want, "elsewhere")
		}
		for range 9 {
			want = append(want, "here")
		}
		if !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

// However the release ends, the next goroutine gets the lock.
func TestReleaseInTwoStepsGoesWrong(t *testing.T) {
	errLost := errors.New("connection reset")
	gone := &driver.GoneError{Reason: driver.ReasonDeleted}
	tests := []struct {
		name   string
		break_ func(s *twoSteps)
		unlock func(err error, panicked any) bool
		within time.Duration // until the next goroutine has the lock
	}{
		{
			"the answer is lost", func(s *twoSteps) { s.answers(0, errLost, 0) },
			func(err error, p any) bool { return err == nil && p == nil }, time.Second,
		},
		{
			"it was deleted before", func(s *twoSteps) { s.answers(0, gone, 0) },
			func(err error, p any) bool { return errors.Is(err, holdfast.ErrLost) && p == nil }, 0,
		},
		{"nothing is answered any more", func(s *twoSteps) {
			s.answers(0, errLost, time.Second)
			s.Change(func() { s.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) } })
		}, func(err error, p any) bool { return err != nil && !errors.Is(err, holdfast.ErrLost) && p == nil }, 4 * time.Second},
		{
			"the answer panics", func(s *twoSteps) { s.set(func() { s.finish = func() (int, error) { panic("finish") } }) },
			func(_ error, p any) bool { return p == "finish" }, 0,
		},
		{
			"the call panics", func(s *twoSteps) { s.set(func() { s.begin = func() { panic("begin") } }) },
			func(_ error, p any) bool { return p == "begin" }, 31 * time.Second,
		},
	}
	for _, tt := range tests {
		for _, others := range []int{-1, 0, 1} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTwoSteps(others)
					l := holdfast.New(store, &holdfast.Options{Handoff: holdfast.Handoff{Max: -1}})
					first := must.Lock(t, l, "job")
					got := standing(t, l, 2)
					must.Unlock(t, first)
					second := <-got
					tt.break_(store)
					start := time.Now()
					err, panicked := unlockOrPanic(second)
					if !tt.unlock(err, panicked) {
						t.Errorf("others %d: Unlock: got %v, panic %v", others, err, panicked)
					}
					third := <-got
					between(t, "the next one has the lock after", time.Since(start), 0, tt.within+5*time.Millisecond)
					if third.Token() <= second.Token() || second.Err() == nil || third.Err() != nil {
						t.Errorf("token %d after %d; the former %v, the present %v", third.Token(), second.Token(), second.Err(), third.Err())
					}
					store.set(func() { store.begin, store.finish = nil, func() (int, error) { return 0, nil } })
					store.Change(func() { store.OnRelease = nil })
					must.Unlock(t, third)
					if err := l.Drain(t.Context()); err != nil {
						t.Error(err)
					}
					mustBeFree(t, store, "job")
				})
			})
		}
	}
}

// slowBatch is a store that answers the release of one name of a batch, and not that of the
// others.
type slowBatch struct {
	*faulty.Store
	answered string
}

func (s *slowBatch) ReleaseAll(ctx context.Context, cs []driver.Claim) []error {
	errs := make([]error, len(cs))
	for i, c := range cs {
		if errs[i] = s.Backend.Release(ctx, c); c.Name != s.answered {
			errs[i] = errors.New("connection reset")
		}
	}
	return errs
}

// A waiter for one of several locks does not wait for the results of the others.
func TestUnlockOfSeveralLetsEachOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowBatch{faulty.New(), "job"}
		store.OnRelease = func(ctx context.Context, c driver.Claim) error {
			if c.Name == "job" {
				return store.Backend.Release(ctx, c)
			}
			return faulty.Hang(ctx)
		}
		l := holdfast.New(store, nil)
		ks, err := holdfast.LockAll(t.Context(), []*holdfast.Mutex{l.Mutex("job"), l.Mutex("other")})
		if err != nil {
			t.Fatal(err)
		}
		got := standing(t, l, 1)
		start := time.Now()
		unlocked := make(chan error, 1)
		go func() { unlocked <- ks.Unlock() }()
		k := <-got
		if took := time.Since(start); took > time.Millisecond {
			t.Errorf("the one behind has the lock after %v, want at once", took)
		}
		if err := <-unlocked; err == nil {
			t.Error("Unlock of what was never answered: got nil")
		}
		store.Change(func() { store.OnRelease = nil })
		must.Unlock(t, k)
		if err := l.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func unlockOrPanic(k *holdfast.Lock) (err error, panicked any) { //nolint:staticcheck // the panic comes after the error
	defer func() { panicked = recover() }()
	return k.Unlock(), nil
}
