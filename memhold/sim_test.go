package memhold_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/memhold"
)

// The simulated network is between the processes and the store. With two steps a release is
// sent before its answer is awaited, and may be quiet, as in redishold.
func TestSimulation(t *testing.T) {
	for name, twoSteps := range map[string]bool{"memory": false, "memory-releaser": true} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(time.Duration) sim.Store {
				return &simStore{engine: memhold.New(), twoSteps: twoSteps, channels: map[string]chan struct{}{}, listeners: map[string]map[*sim.Link]int{}}
			})
		})
	}
}

// simStore is a memory store behind a simulated network.
type simStore struct {
	twoSteps bool

	mu     sync.Mutex
	engine *memhold.Backend

	// With two steps, by name:
	channels  map[string]chan struct{}     // closed when the waiters are notified
	listeners map[string]map[*sim.Link]int // how many waiters each process has
}

// channel returns the channel of the next notification for a name.
func (s *simStore) channel(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.channels[name] == nil {
		s.channels[name] = make(chan struct{})
	}
	return s.channels[name]
}

// listens adds n to the number of waiters that a process has for a name.
func (s *simStore) listens(l *sim.Link, name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[name] == nil {
		s.listeners[name] = map[*sim.Link]int{}
	}
	if s.listeners[name][l] += n; s.listeners[name][l] == 0 {
		delete(s.listeners[name], l)
	}
}

// others returns how many processes but that of l have waiters for a name.
func (s *simStore) others(l *sim.Link, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.listeners[name])
	if s.listeners[name][l] > 0 {
		n--
	}
	return n
}

// publish notifies the waiters of a name.
func (s *simStore) publish(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[name]; c != nil {
		close(c)
		delete(s.channels, name)
	}
}

func (s *simStore) now() *memhold.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

func (s *simStore) Client(l *sim.Link) driver.Backend {
	c := simClient{sim.Collected{Link: l}, s, l}
	if s.twoSteps {
		return simReleaser{c}
	}
	return c
}

// Forget is a restart, or the deletion of keys.
func (s *simStore) Forget(which func() bool) {
	if engine := s.now(); which() {
		for _, name := range []string{"f1", "m1", "m2", "r1", "s1", "s2"} {
			if which() {
				engine.Drop(name)
			}
		}
		return
	}
	s.replace(memhold.New())
}

func (s *simStore) Remember() (forget func()) {
	then := s.now().Clone()
	return func() { s.replace(then.After(s.now())) }
}

func (s *simStore) replace(engine *memhold.Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = engine
}

func (s *simStore) Force(name string) bool {
	defer s.publish(name)
	return sim.Force(s.now(), name)
}

func (s *simStore) Left() []string { return sim.Left(s.now()) }

func (s *simStore) Holders(name string) (n int, all bool) { return s.now().Holders(name), true }

// simClient is a simStore for one process.
type simClient struct {
	sim.Collected
	s    *simStore
	link *sim.Link
}

func (c simClient) Info() driver.Info { return c.s.now().Info() }

// back converts an outcome to the clock of the process.
func (c simClient) back(o driver.Outcome) driver.Outcome {
	o.ValidFor, o.RetryAfter = c.link.Back(o.ValidFor), c.link.Back(o.RetryAfter)
	return o
}

func (c simClient) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	o, err := sim.Call(ctx, c.link, func() (driver.Outcome, error) {
		return c.s.now().Try(context.Background(), c.link.Claims(claim)[0])
	})
	return c.back(o), err
}

func (c simClient) TryAll(ctx context.Context, claims []driver.Claim) []driver.Attempt {
	answers, err := sim.Call(ctx, c.link, func() ([]driver.Attempt, error) {
		return c.s.now().TryAll(context.Background(), c.link.Claims(claims...)), nil
	})
	all := make([]driver.Attempt, len(claims))
	for i := range all {
		if all[i].Err = err; err == nil {
			all[i] = driver.Attempt{Outcome: c.back(answers[i].Outcome), Err: answers[i].Err}
		}
	}
	return all
}

func (c simClient) Renew(ctx context.Context, claims []driver.Claim) ([]driver.Renewal, error) {
	answers, err := sim.Call(ctx, c.link, func() ([]driver.Renewal, error) {
		return c.s.now().Renew(context.Background(), c.link.Claims(claims...))
	})
	all := make([]driver.Renewal, len(answers))
	for i, a := range answers {
		all[i] = driver.Renewal{ValidFor: c.link.Back(a.ValidFor), Err: a.Err}
	}
	return all, err
}

func (c simClient) Release(ctx context.Context, claim driver.Claim) error {
	_, err := c.release(ctx, claim, func() int { return 0 })
	return err
}

// release also returns the result of the function `then`, which it calls after the release.
func (c simClient) release(ctx context.Context, claim driver.Claim, then func() int) (int, error) {
	return sim.Call(ctx, c.link, func() (int, error) {
		err := c.s.now().Release(context.Background(), c.link.Claims(claim)[0])
		return then(), err
	})
}

func (c simClient) ReleaseAll(ctx context.Context, claims []driver.Claim) []error {
	return c.releaseAll(ctx, claims, func() {})
}

// releaseAll calls the function `then` after the releases.
func (c simClient) releaseAll(ctx context.Context, claims []driver.Claim, then func()) []error {
	errs, err := sim.Call(ctx, c.link, func() ([]error, error) {
		defer then()
		return c.s.now().ReleaseAll(context.Background(), c.link.Claims(claims...)), nil
	})
	if err == nil {
		return errs
	}
	errs = make([]error, len(claims))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (c simClient) Resize(ctx context.Context, name string, permits int) error {
	_, err := sim.Call(ctx, c.link, func() (struct{}, error) {
		return struct{}{}, c.s.now().Resize(context.Background(), name, permits)
	})
	return err
}

func (c simClient) Permits(ctx context.Context, name string) (total, free int, err error) {
	return c.s.now().Permits(ctx, name)
}

func (c simClient) Notify(ctx context.Context, client string, hint func(uint64)) error {
	return c.s.now().Notify(ctx, client, func(seq uint64) {
		c.link.Deliver(func(err error) {
			if err == nil {
				hint(seq)
			}
		})
	})
}

func (c simClient) Waiter(claim driver.Claim) driver.Waiter {
	return simWaiter{c.s.now().Waiter(claim), c.link}
}

type simWaiter struct {
	driver.Waiter
	link *sim.Link
}

func (w simWaiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	o, err := w.Waiter.Wait(ctx, last)
	if err == nil {
		err = w.link.Receive(ctx)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	return o, nil
}

// simReleaser sends a release before its answer is awaited. The engine cannot release quietly, so
// simReleaser has its own notifications, except for fair claims, whose releases are never quiet.
type simReleaser struct{ simClient }

// met is the value of Outcome.Ahead.
type met struct {
	ahead any             // that of the engine
	next  <-chan struct{} // closed at the next notification after the try
}

func (c simReleaser) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	o, err := sim.Call(ctx, c.link, func() (driver.Outcome, error) {
		next := c.s.channel(claim.Name)
		o, err := c.s.now().Try(context.Background(), c.link.Claims(claim)[0])
		o.Ahead = met{o.Ahead, next}
		return o, err
	})
	return c.back(o), err
}

func (c simReleaser) Waiter(claim driver.Claim) driver.Waiter {
	c.s.listens(c.link, claim.Name, 1)
	return simListener{simWaiter{c.s.now().Waiter(claim), c.link}, c.s, claim}
}

// simListener waits for the notifications of a simReleaser.
type simListener struct {
	simWaiter
	s     *simStore
	claim driver.Claim
}

func (w simListener) Close() {
	w.s.listens(w.link, w.claim.Name, -1)
	w.simWaiter.Close()
}

func (w simListener) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	m, ok := last.Ahead.(met)
	if last.Ahead = m.ahead; !ok || w.claim.Fair {
		return w.simWaiter.Wait(ctx, last)
	}
	select {
	case <-m.next:
		return driver.Outcome{}, w.link.Receive(ctx)
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

func (c simReleaser) Release(ctx context.Context, claim driver.Claim) error {
	_, err := c.ReleaseNow(ctx, claim)
	return err
}

func (c simReleaser) ReleaseNow(ctx context.Context, claim driver.Claim) (others int, err error) {
	return c.release(ctx, claim, func() int {
		if claim.Quiet {
			return -1
		}
		c.s.publish(claim.Name)
		return c.s.others(c.link, claim.Name)
	})
}

func (c simReleaser) ReleaseAll(ctx context.Context, claims []driver.Claim) []error {
	return c.releaseAll(ctx, claims, func() {
		for _, claim := range claims {
			c.s.publish(claim.Name)
		}
	})
}

func (c simReleaser) StartRelease(ctx context.Context, claim driver.Claim) (finish func() (int, error)) {
	type answer struct {
		others int
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		others, err := c.ReleaseNow(ctx, claim)
		got <- answer{others, err}
	}()
	return func() (int, error) { a := <-got; return a.others, a.err }
}

func (c simReleaser) Wake(ctx context.Context, claim driver.Claim) error {
	_, err := sim.Call(ctx, c.link, func() (struct{}, error) {
		c.s.publish(claim.Name)
		return struct{}{}, nil
	})
	return err
}

func (c simReleaser) Resize(ctx context.Context, name string, permits int) error {
	defer c.s.publish(name)
	return c.simClient.Resize(ctx, name, permits)
}
