package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Each of the processes has four readers and one writer.
const (
	rwProcesses = 4
	rwReaders   = 4
	rwOps       = 1000 // of each of the twenty
	rwNames     = 8
)

// Readers read together, and no writer writes beside anybody else.
func TestReadWriteHistory(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		c := newCrew(s)
		began := time.Now()
		for range rwProcesses {
			c.hire("readwrite", plan{Actors: rwReaders + 1, Ops: rwOps, Seed: rand.Uint64()})
		}
		h := c.finish()
		swept := h.Check(judge.Rules{})
		if swept.Err() != nil {
			s.Errorf("violation: %v", swept.Err())
		}
		if want := rwProcesses * (rwReaders + 1) * rwOps; swept.Holds != want {
			s.Errorf("%d holds, want %d", swept.Holds, want)
		}
		if swept.Most[judge.Reader] < 2 {
			s.Errorf("no two readers have ever read together")
		}
		gone(s, s.server.Admin, 0)
		s.Logf("%d holds in %v, up to %d readers at a time", swept.Holds, time.Since(began).Round(time.Millisecond), swept.Most[judge.Reader])
	})
}

// useReadWrite reads and writes under random names. Readers pause between, for
// a writer does not get in where reading never does.
func useReadWrite(w *worker) error {
	l := w.locker()
	errs := make([]error, w.Actors)
	var wg sync.WaitGroup
	for i := range w.Actors {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for range w.Ops {
				rw := l.RWMutex(fmt.Sprintf("page:%d", random.IntN(rwNames)))
				a := judge.Request{Name: rw.Read.Name(), Side: judge.Reader, Lock: bare(rw.Read)}
				if i == 0 {
					a.Side, a.Lock = judge.Writer, bare(rw.Write)
				}
				if errs[i] = w.log.Hold(w.ctx, a, time.Duration(random.IntN(500))*time.Microsecond); errs[i] != nil {
					return
				}
				time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// bare is m.Lock without options.
func bare(m *holdfast.Mutex) func(context.Context) (*holdfast.Lock, error) {
	return func(ctx context.Context) (*holdfast.Lock, error) { return m.Lock(ctx) }
}

// One of ten readers is killed. The writer that waits gets in when its lease is
// over, or later when the others are done, and those notice nothing.
func TestKilledReader(t *testing.T) {
	const ttl = 1500 * time.Millisecond
	for name, stay := range map[string]time.Duration{"others leave before its lease ends": ttl / 3, "others stay longer": ttl * 5 / 3} {
		t.Run(name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				opts := &holdfast.Options{TTL: ttl}
				victim := newCrew(s).hire("hold", plan{Kind: "read", Name: "page", TTL: ttl})
				victim.await(judge.Granted)
				var others []*holdfast.Lock
				for i := range 9 {
					if i%3 == 0 {
						s.warm(s.other(opts))
					}
					others = append(others, take(s, s.other(opts).RWMutex("page").Read))
				}
				type entry struct {
					lock *holdfast.Lock
					at   time.Time
				}
				writer := make(chan entry, 1)
				mutex := s.other(opts).RWMutex("page").Write
				go func() {
					lock, err := mutex.Lock(s.Context())
					if err != nil {
						s.Errorf("the writer: %v", err)
					}
					writer <- entry{lock, time.Now()}
				}()
				time.Sleep(100 * time.Millisecond) // it waits

				victim.Kill()
				killed := time.Now()
				time.Sleep(stay)
				var leaving time.Time // the last of them
				for i, k := range others {
					if err := k.Err(); err != nil {
						s.Errorf("reader %d was disturbed: %v", i, err)
					}
					leaving = time.Now()
					must.Unlock(s, k)
				}
				left := time.Now()
				w := <-writer
				if w.lock == nil {
					return
				}
				if w.at.Before(leaving) {
					s.Errorf("the writer came in %v before the last reader left", leaving.Sub(w.at))
				}
				if keys := timeouts(s.server.Admin); len(keys) != 0 {
					s.Errorf("the writer came in while a reader's lease went on: %q", keys)
				}
				limit := killed.Add(ttl + time.Second)
				if stay > ttl { // nobody but those who stayed has kept it out
					limit = left.Add(time.Second)
				}
				within(s, "the writer waited, beyond what it must,", w.at.Sub(limit), 0)
				must.Unlock(s, w.lock)
				gone(s, s.server.Admin, 0)
				s.Logf("in %v after the kill, %v after the last reader", w.at.Sub(killed), w.at.Sub(left))
			})
		})
	}
}

// timeouts returns the keys of readers' leases.
func timeouts(a redistest.Admin) []string {
	var found []string
	for _, key := range a.Keys() {
		if strings.Contains(key, ":rwlock_timeout:") {
			found = append(found, key)
		}
	}
	return found
}

// take is mustLock for a mutex of any kind.
func take(s *subject, m *holdfast.Mutex) *holdfast.Lock {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	lock, err := m.Lock(ctx)
	if err != nil {
		s.Fatalf("Lock(%q): %v", m.Name(), err)
	}
	return lock
}
