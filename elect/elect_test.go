package elect_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

const ttl = 6 * time.Second

// term is a term as its leader saw it.
type term struct {
	leader     int
	token      uint64
	begun      time.Time
	over       time.Time // when its context ended
	leadingEnd error     // the result of Leading then
}

// electorate is a number of processes that campaign in one store.
type electorate struct {
	t      *testing.T
	shared *memhold.Backend
	stores []*faulty.Store
	begun  chan *term // terms that begin

	mu    sync.Mutex
	terms []*term
}

// campaign starts n processes, which end with the test.
func campaign(t *testing.T, n int) *electorate {
	e := &electorate{t: t, shared: memhold.New(), begun: make(chan *term, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range n {
		store := &faulty.Store{Backend: e.shared}
		l := holdfast.New(store, &holdfast.Options{TTL: ttl})
		e.stores = append(e.stores, store)
		running.Go(func() {
			e.run(ctx, i, elect.New(l.Mutex("leader")))
			must.Drain(t, l)
		})
	}
	t.Cleanup(func() {
		cancel()
		for _, s := range e.stores {
			heal(s)
		}
		running.Wait()
		e.check()
	})
	return e
}

// run runs one process. Its leaders work until their term is over.
func (e *electorate) run(ctx context.Context, id int, election *elect.Election) {
	err := election.Run(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		if err := election.Leading(); err != nil {
			e.t.Errorf("process %d leads: Leading returns %v", id, err)
		}
		of := &term{leader: id, token: lock.Token(), begun: time.Now()}
		e.begun <- of
		<-ctx.Done()
		e.mu.Lock()
		defer e.mu.Unlock()
		of.over, of.leadingEnd = time.Now(), election.Leading()
		e.terms = append(e.terms, of)
		return errors.New("the term is over")
	})
	if ctx.Err() == nil {
		e.t.Errorf("process %d: Run returned %v", id, err)
	}
	if err := election.Leading(); !errors.Is(err, elect.ErrNotLeading) {
		e.t.Errorf("process %d: Leading returns %v after Run", id, err)
	}
}

// check compares each term with the one before.
func (e *electorate) check() {
	for i, this := range e.terms[1:] {
		last := e.terms[i]
		if last.over.After(this.begun) || this.token <= last.token {
			e.t.Errorf("process %d led from %v with token %d, and process %d until %v with token %d",
				this.leader, this.begun, this.token, last.leader, last.over, last.token)
		}
	}
}

// cut makes a store answer no call.
func cut(s *faulty.Store) {
	s.Change(func() {
		s.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
			return driver.Outcome{}, faulty.Hang(ctx)
		}
		s.OnRenew = func(ctx context.Context, _ []driver.Claim) ([]driver.Renewal, error) { return nil, faulty.Hang(ctx) }
		s.OnRelease = func(ctx context.Context, _ driver.Claim) error { return faulty.Hang(ctx) }
	})
}

func heal(s *faulty.Store) {
	s.Change(func() { s.OnTry, s.OnRenew, s.OnRelease = nil, nil, nil })
}

// A leader that is cut off ends its term before the next one begins, 50 times in a row.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := campaign(t, 3)
		leader := <-e.begun
		for range 50 {
			time.Sleep(ttl / 2)
			at := time.Now()
			cut(e.stores[leader.leader])
			next := <-e.begun
			if took := time.Since(at); took > ttl+time.Second {
				t.Errorf("the next leader after %v, with a TTL of %v", took, ttl)
			}
			if next.leader == leader.leader {
				t.Errorf("process %d leads again, and is cut off", next.leader)
			}
			if !errors.Is(leader.leadingEnd, holdfast.ErrLost) {
				t.Errorf("Leading returned %v at the end of the term", leader.leadingEnd)
			}
			heal(e.stores[leader.leader])
			leader = next
		}
	})
}

// A leader whose hold was ended by force campaigns again. Its term may overlap with the
// next one until its next renewal, but its token is smaller.
func TestForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memhold.New()
		l := holdfast.New(shared, &holdfast.Options{TTL: ttl})
		election := elect.New(l.Mutex("leader"))
		ctx, cancel := context.WithCancel(t.Context())
		var tokens []uint64
		err := election.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
			if tokens = append(tokens, lock.Token()); len(tokens) == 3 {
				cancel()
			} else {
				shared.Drop("leader")
			}
			<-term.Done()
			return nil
		})
		if err != nil || len(tokens) != 3 || tokens[0] >= tokens[1] || tokens[1] >= tokens[2] {
			t.Errorf("got %v, tokens %v, want three that rise", err, tokens)
		}
	})
}

// A term that is lost when ctx has ended is no resignation: Run returns the error of ctx.
func TestLossAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, own := memhold.New(), errors.New("disk full")
		election := elect.New(holdfast.New(store, &holdfast.Options{TTL: ttl}).Mutex("leader"))
		ctx, cancel := context.WithCancel(t.Context())
		err := election.Run(ctx, func(_ context.Context, lock *holdfast.Lock) error {
			store.Drop("leader")
			<-lock.Context(t.Context()).Done() // which has no other end
			cancel()
			return own
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, own) {
			t.Errorf("got %v, want the error of the context", err)
		}
	})
}

// A leader that resigns releases the lock at once, and Run returns its error.
func TestResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, own := memhold.New(), errors.New("disk full")
		for _, want := range []error{nil, own} {
			l := holdfast.New(store, &holdfast.Options{TTL: ttl})
			election := elect.New(l.Mutex("leader"))
			got := election.Run(t.Context(), func(context.Context, *holdfast.Lock) error { return want })
			if !errors.Is(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			must.Unlock(t, must.Lock(t, holdfast.New(store, nil), "leader", holdfast.Wait(0)))
		}
	})
}

// When ctx ends, the leader resigns, and a candidate ends with its error.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error)
		for range 2 {
			election := elect.New(holdfast.New(store, nil).Mutex("leader"))
			go func() {
				got <- election.Run(ctx, func(term context.Context, _ *holdfast.Lock) error { <-term.Done(); return nil })
			}()
		}
		synctest.Wait()
		cancel()
		one, two := <-got, <-got
		if errors.Join(one, two) == nil || one != nil && two != nil || !errors.Is(errors.Join(one, two), context.Canceled) {
			t.Errorf("got %v and %v, want nil of the leader, and the error of the context", one, two)
		}
	})
}

// No new term begins before the function of the last one has returned.
func TestSlowToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		election := elect.New(holdfast.New(store, &holdfast.Options{TTL: ttl}).Mutex("leader"))
		inside, terms := 0, 0
		ctx, cancel := context.WithCancel(t.Context())
		_ = election.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
			if inside++; inside > 1 {
				t.Errorf("%d terms at the same time", inside)
			}
			defer func() { inside-- }()
			if terms++; terms == 2 {
				cancel()
				return nil
			}
			store.Drop("leader")
			<-term.Done()
			if err := election.Leading(); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Leading returns %v while the function goes on after a loss", err)
			}
			time.Sleep(time.Minute)
			return nil
		})
		if terms != 2 {
			t.Errorf("%d terms, want 2", terms)
		}
	})
}

// A leader that panics releases the lock, and may campaign again.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		election := elect.New(l.Mutex("leader"))
		func() {
			defer func() {
				if got := recover(); got != "broken" {
					t.Errorf("got the panic %v, want that of the leader", got)
				}
			}()
			_ = election.Run(t.Context(), func(context.Context, *holdfast.Lock) error { panic("broken") })
		}()
		if err := election.Leading(); !errors.Is(err, elect.ErrNotLeading) {
			t.Errorf("Leading returns %v after a panic", err)
		}
		if err := election.Run(t.Context(), func(context.Context, *holdfast.Lock) error { return nil }); err != nil {
			t.Errorf("another Run: %v", err)
		}
	})
}

// Run must not be called again before it has returned. It returns errors that would come
// again.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, own := faulty.New(), errors.New("no rights")
		l := holdfast.New(store, nil)
		election := elect.New(l.Mutex("leader"))
		err := election.Run(t.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
			return election.Run(context.WithoutCancel(ctx), func(context.Context, *holdfast.Lock) error { return nil })
		})
		if err == nil || errors.Is(err, holdfast.ErrDeadlock) {
			t.Errorf("Run within Run: got %v", err)
		}
		lock := must.Lock(t, l, "leader")
		if err := elect.New(l.Mutex("leader"), holdfast.Wait(time.Second)).Run(t.Context(), nil); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("with Wait: got %v, want ErrBusy", err)
		}
		must.Unlock(t, lock)
		store.Change(func() {
			store.OnTry = func(context.Context, driver.Claim) (driver.Outcome, error) {
				return driver.Outcome{}, fmt.Errorf("%w: %w", own, driver.ErrRefused)
			}
		})
		if err := election.Run(t.Context(), nil); !errors.Is(err, own) {
			t.Errorf("refused: got %v", err)
		}
		if err := election.IsLeader(t.Context()); !errors.Is(err, elect.ErrNotLeading) {
			t.Errorf("IsLeader returns %v", err)
		}
		must.Drain(t, l)
	})
}
