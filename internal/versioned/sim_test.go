package versioned_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// Each process has an Engine, and the network is between that and the store. "documents" has no
// clock and is polled, "documents-watched" has a clock and reports changes, and "documents-batched"
// has a clock, and reads and writes several documents at once.
func TestSimulation(t *testing.T) {
	for name, open := range map[string]func(*memory, *sim.Link) versioned.Store{
		"documents":         func(m *memory, l *sim.Link) versioned.Store { return linked{m, l} },
		"documents-watched": func(m *memory, l *sim.Link) versioned.Store { return linkedWatch{linked{m, l}} },
		"documents-batched": func(m *memory, l *sim.Link) versioned.Store { return linkedBatch{linked{m, l}} },
	} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(time.Duration) sim.Store {
				m := newMemory(name != "documents")
				s := &simStore{memory: m, name: name, open: open, console: versioned.New(m, versioned.Limits{Name: name, Tolerance: 1})}
				if name == "documents-batched" {
					return s
				}
				return singly{s}
			})
		})
	}
}

// simStore is a memory behind the network of a simulation.
type simStore struct {
	*memory
	name    string
	open    func(*memory, *sim.Link) versioned.Store
	console *versioned.Engine // for the checks; it is beside the store
}

func (s *simStore) Optimistic() {}

// singly is a simStore without batches.
type singly struct{ *simStore }

func (singly) Singly() {}

func (s *simStore) Client(l *sim.Link) driver.Backend {
	return simClient{sim.Collected{Link: l}, versioned.New(s.open(s.memory, l), versioned.Limits{Name: s.name, NoClock: !s.aged, Tolerance: time.Hour}), l}
}

// Forget ends leases. It keeps the tokens, because the simulation excuses no fault after a loss of
// tokens.
func (s *simStore) Forget(which func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range sorted(s.items) {
		if which() {
			s.set(name, emptied(s.items[name].data))
		}
	}
}

// emptied returns a document without holders and waiters.
func emptied(data []byte) []byte {
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		panic(err)
	}
	rest := map[string]any{}
	for _, field := range []string{"format", "written", "last", "kind", "permits", "count"} {
		if v, ok := all[field]; ok {
			rest[field] = v
		}
	}
	rest["revision"] = all["revision"].(float64) + 1
	data, err := json.Marshal(rest)
	if err != nil {
		panic(err)
	}
	return data
}

// Remember returns a function that undoes all later writes, as a failover does. It keeps the last
// token of each name.
func (s *simStore) Remember() (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then := maps.Clone(s.items)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range sorted(s.items) {
			k, ok := then[name]
			if !ok {
				delete(s.items, name)
				continue
			}
			s.items[name] = k
		}
	}
}

func (s *simStore) Force(name string) bool { return sim.Force(s.console, name) }

func (s *simStore) Left() []string { return sim.Left(s.console) }

func (s *simStore) Holders(name string) (n int, all bool) {
	records, err := s.console.Get(context.Background(), name)
	if err != nil {
		return 0, false
	}
	return len(records[0].Holds), true
}

// simClient is the store as one process uses it, by the clock of the store.
type simClient struct {
	sim.Collected
	*versioned.Engine
	link *sim.Link
}

func (c simClient) back(o driver.Outcome) driver.Outcome {
	o.ValidFor, o.RetryAfter = c.link.Back(o.ValidFor), c.link.Back(o.RetryAfter)
	return o
}

func (c simClient) Try(ctx context.Context, claim driver.Claim) (driver.Outcome, error) {
	o, err := c.Engine.Try(ctx, c.link.Claims(claim)[0])
	return c.back(o), err
}

func (c simClient) TryAll(ctx context.Context, claims []driver.Claim) []driver.Attempt {
	all := c.Engine.TryAll(ctx, c.link.Claims(claims...))
	for i := range all {
		all[i].Outcome = c.back(all[i].Outcome)
	}
	return all
}

func (c simClient) Renew(ctx context.Context, claims []driver.Claim) ([]driver.Renewal, error) {
	all, err := c.Engine.Renew(ctx, c.link.Claims(claims...))
	for i := range all {
		all[i].ValidFor = c.link.Back(all[i].ValidFor)
	}
	return all, err
}

func (c simClient) Release(ctx context.Context, claim driver.Claim) error {
	return c.Engine.Release(ctx, c.link.Claims(claim)[0])
}

func (c simClient) ReleaseAll(ctx context.Context, claims []driver.Claim) []error {
	return c.Engine.ReleaseAll(ctx, c.link.Claims(claims...))
}

// linked is a memory behind the network.
type linked struct {
	*memory
	link *sim.Link
}

func (s linked) Get(ctx context.Context, name string) (versioned.Item, error) {
	return sim.Call(ctx, s.link, func() (versioned.Item, error) { return s.memory.Get(context.Background(), name) })
}

func (s linked) Put(ctx context.Context, w versioned.Write) (versioned.Version, error) {
	return sim.Call(ctx, s.link, func() (versioned.Version, error) { return s.memory.Put(context.Background(), w) })
}

type linkedBatch struct{ linked }

func (s linkedBatch) GetAll(ctx context.Context, names []string) ([]versioned.Item, error) {
	return sim.Call(ctx, s.link, func() ([]versioned.Item, error) {
		return batched{s.memory}.GetAll(context.Background(), names)
	})
}

func (s linkedBatch) PutAll(ctx context.Context, all []versioned.Write) ([]versioned.Written, error) {
	return sim.Call(ctx, s.link, func() ([]versioned.Written, error) {
		return batched{s.memory}.PutAll(context.Background(), all)
	})
}

type linkedWatch struct{ linked }

func (s linkedWatch) Watch(ctx context.Context, live func(), changed func(string, versioned.Version)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.link.Receive(ctx); err != nil {
		return err
	}
	err := watched{s.memory}.Watch(ctx, live, func(name string, v versioned.Version) {
		s.link.Deliver(func(err error) {
			if err != nil {
				cancel(err)
				return
			}
			changed(name, v)
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
