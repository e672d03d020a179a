package ordered_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const ttl = 10 * time.Second

var errLost = errors.New("the answer was lost")

// process is a client of a store in a test.
type process struct {
	*backend
	t    *testing.T
	name string
	seq  atomic.Uint64
}

// processes returns clients of one store.
func processes(t *testing.T, n int) (*memory, []*process) {
	m := newMemory(ttl)
	ps := make([]*process, n)
	for i := range ps {
		ps[i] = &process{backend: newBackend(m), t: t, name: fmt.Sprint("process", i)}
	}
	return m, ps
}

// contend has n processes queue for one name, which the first holds. It returns their
// claims, and the Outcome of the last. The store reports removed entries as certain.
func contend(t *testing.T, n int, readWrite bool) (m *memory, ps []*process, claims []driver.Claim, last driver.Outcome) {
	t.Helper()
	m, ps = processes(t, n)
	m.sure = true
	for i, p := range ps {
		c := p.claim()
		c.ReadWrite = readWrite
		last = p.granted(c, i == 0)
		claims = append(claims, c)
	}
	return m, ps, claims, last
}

func (p *process) claim() driver.Claim {
	n := p.seq.Add(1)
	return driver.Claim{Name: "job", Client: p.name, Seq: n, Owner: fmt.Sprintf("%s:%d", p.name, n), TTL: ttl, Count: 1, Tokens: 1, Note: p.name}
}

func (p *process) try(c driver.Claim) driver.Outcome {
	p.t.Helper()
	out, err := p.Try(p.t.Context(), c)
	if err != nil {
		p.t.Fatalf("Try: %v", err)
	}
	return out
}

func (p *process) granted(c driver.Claim, want bool) driver.Outcome {
	p.t.Helper()
	out := p.try(c)
	if out.Granted != want {
		p.t.Fatalf("Try of %s: granted %v, want %v; in the queue: %s", c.Owner, out.Granted, want, p.store.keys(c.Name))
	}
	return out
}

func (p *process) release(c driver.Claim) {
	p.t.Helper()
	if err := p.Release(p.t.Context(), c); err != nil {
		p.t.Fatalf("Release of %s: %v", c.Owner, err)
	}
}

// over releases c, which must be gone.
func (p *process) over(c driver.Claim) {
	p.t.Helper()
	if err := p.Release(p.t.Context(), c); !errors.Is(err, driver.ErrGone) {
		p.t.Errorf("Release of %s: got error %v, want ErrGone", c.Owner, err)
	}
}

// lostRelease releases c by a call whose answer is lost, after or before it was executed.
func (p *process) lostRelease(call string, c driver.Claim, executed bool) {
	p.t.Helper()
	p.store.lose(call, executed)
	if err := p.Release(p.t.Context(), c); !errors.Is(err, errLost) {
		p.t.Fatalf("Release of %s: got error %v, want that the answer was lost", c.Owner, err)
	}
	p.store.spoil(nil, nil)
}

// lostTry tries c, and the answer is lost, after or before an entry was made.
func (p *process) lostTry(c driver.Claim, executed bool) {
	p.t.Helper()
	p.store.lose("enqueue", executed)
	if _, err := p.Try(p.t.Context(), c); !errors.Is(err, errLost) {
		p.t.Fatalf("Try of %s: got error %v, want that the answer was lost", c.Owner, err)
	}
	p.store.spoil(nil, nil)
}

// waited wants Wait to return, with a grant or without one.
func waited(t *testing.T, w driver.Waiter, last driver.Outcome, granted bool) driver.Outcome {
	t.Helper()
	out, err := w.Wait(t.Context(), last)
	if err != nil || out.Granted != granted {
		t.Fatalf("Wait: got %+v and error %v, want a grant: %v", out, err, granted)
	}
	return out
}

// waits wants Wait not to return for so long.
func waits(t *testing.T, w driver.Waiter, last driver.Outcome, long time.Duration) {
	t.Helper()
	nap, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if _, err := w.Wait(nap, last); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: got error %v, want a wait until its end", err)
	}
}

func (p *process) renewed(c driver.Claim, want error) driver.Renewal {
	p.t.Helper()
	answers, err := p.Renew(p.t.Context(), []driver.Claim{c})
	if err != nil || !errors.Is(answers[0].Err, want) {
		p.t.Fatalf("Renew of %s: got %v, %v, want %v", c.Owner, answers, err, want)
	}
	return answers[0]
}

// empty requires that nothing is in the store.
func (m *memory) empty(t *testing.T) {
	t.Helper()
	if left := m.keys("job"); left != "" {
		t.Errorf("left in the queue: %s", left)
	}
}

// drop removes entries, as another program may.
func (m *memory) drop(which func(entry) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(which)
}

// lose has the store lose the answer of a call, after or before it is executed.
func (m *memory) lose(call string, executed bool) {
	if executed {
		m.spoil(nil, losing(call))
	} else {
		m.spoil(losing(call), nil)
	}
}

// losing has the store lose the answers of calls after it has executed them.
func losing(calls ...string) func(context.Context, string) error {
	return func(_ context.Context, call string) error {
		for _, lost := range calls {
			if call == lost {
				return errLost
			}
		}
		return nil
	}
}

// release1 takes and releases a claim.
func (p *process) release1(c driver.Claim) {
	p.granted(c, true)
	p.release(c)
}

// pass takes a claim as the core does, calls do, and releases it.
func (p *process) pass(do func(driver.Outcome)) {
	c := p.claim()
	w := p.Waiter(c)
	defer w.Close()
	for {
		out, err := p.Try(p.t.Context(), c)
		if err == nil && out.Granted {
			do(out)
			break
		}
		if err == nil {
			nap, cancel := context.WithTimeout(p.t.Context(), time.Second)
			_, _ = w.Wait(nap, out)
			cancel()
		}
	}
	for {
		if err := p.Release(p.t.Context(), c); err == nil || errors.Is(err, driver.ErrGone) {
			return
		}
	}
}
