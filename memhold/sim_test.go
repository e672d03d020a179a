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
// sent before its answer is awaited, as redishold does.
func TestSimulation(t *testing.T) {
	for name, twoSteps := range map[string]bool{"memory": false, "memory-releaser": true} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(time.Duration) sim.Store { return &simStore{engine: memhold.New(), twoSteps: twoSteps} })
		})
	}
}

// simStore is a memory store behind a simulated network.
type simStore struct {
	twoSteps bool

	mu     sync.Mutex
	engine *memhold.Backend
}

func (s *simStore) now() *memhold.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

func (s *simStore) Client(l *sim.Link) driver.Backend {
	c := simClient{s, l}
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

func (s *simStore) Force(name string) bool { return sim.Force(s.now(), name) }

func (s *simStore) Left() []string { return sim.Left(s.now()) }

// simClient is a simStore for one process.
type simClient struct {
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
	_, err := c.release(ctx, claim)
	return err
}

// release also returns how many others wait.
func (c simClient) release(ctx context.Context, claim driver.Claim) (int, error) {
	return sim.Call(ctx, c.link, func() (others int, _ error) {
		engine := c.s.now()
		if records, err := engine.Get(context.Background(), claim.Name); err == nil && len(records) > 0 {
			others = max(records[0].Waiting, 0)
		}
		return others, engine.Release(context.Background(), c.link.Claims(claim)[0])
	})
}

func (c simClient) ReleaseAll(ctx context.Context, claims []driver.Claim) []error {
	errs, err := sim.Call(ctx, c.link, func() ([]error, error) {
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

// simReleaser sends a release before its answer is awaited.
type simReleaser struct{ simClient }

func (c simReleaser) StartRelease(ctx context.Context, claim driver.Claim) (finish func() (int, error)) {
	type answer struct {
		others int
		err    error
	}
	got := make(chan answer, 1)
	go func() {
		others, err := c.release(ctx, claim)
		got <- answer{others, err}
	}()
	return func() (int, error) { a := <-got; return a.others, a.err }
}
