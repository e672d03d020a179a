package manytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// Load has many clients wait for names of a store, and counts what that costs the server.
type Load struct {
	Open     Open
	At       string                          // what Open gets
	Server   func() (requests, numbers int)  // so far: requests, and numbers of transactions that were drawn
	Clients  func() (connections, busy int)  // of the Backends, and how many of what clients ask for goes on
	Stranger func(ctx context.Context) error // connects, and asks for something
	Most     func(Crowd) Bounds
}

// Open returns a Backend over the store at an address, with connections of its own that
// have no limit, and how to close them.
type Open func(at string) (b driver.Backend, shut func(), err error)

// Bounds are those of a Load.
type Bounds struct {
	Requests, Numbers int // a second, while everybody waits
	Connections       int // at any time, but for those that are there for a moment only
}

// Crowd is how many clients of a store there are.
type Crowd struct {
	Names   int // each is held
	Waiters int // in all, as many for each name
	GaveUp  int // calls that are given up at once, half of them of names that are held
}

const (
	loadTTL   = 6 * time.Second
	loadLate  = loadTTL / 4 // a machine that stands still for so long may cost the lock
	loadParts = 4
	loadFor   = 3 * time.Second
)

// Run lets one crowd after the other come, each in four processes in the larger form,
// otherwise with four Backends in this one. It checks that the holder keeps its locks, that
// strangers are served within a second, and that nothing is left at the server at the end.
func (l *Load) Run(t *testing.T) {
	for _, c := range crowds() {
		t.Run(fmt.Sprintf("%d names, %d waiters", c.Names, c.Waiters), func(t *testing.T) { l.bear(t, c) })
	}
}

func crowds() []Crowd {
	if Full() {
		return []Crowd{{1, 99, 300}, {1, 100, 300}, {1, 101, 300}, {1, 200, 300}, {1, 500, 1000}, {50, 500, 1000}}
	}
	return []Crowd{{1, 101, 300}}
}

func (l *Load) bear(t *testing.T, c Crowd) {
	machine := await.NewWatch(t)
	b, shut, err := l.Open(l.At)
	if err != nil {
		t.Fatal(err)
	}
	holder := holdfast.New(b, &holdfast.Options{TTL: loadTTL})
	held := make([]*holdfast.Lock, c.Names)
	for i := range held {
		held[i] = must.Lock(t, holder, nameOf(i))
	}
	stop := l.watch(t)
	parts := l.split(t, c)
	trouble := parts.next(t, "everybody waits")
	time.Sleep(loadTTL / 3) // those without a place have asked again
	requests, numbers := l.Server()
	time.Sleep(loadFor) // it is the load of a time that is measured
	r, n := l.Server()
	trouble = errors.Join(trouble, parts.next(t, "calls are given up"), parts.next(t, "everybody leaves"))
	for _, k := range held {
		trouble = errors.Join(trouble, k.Err(), k.Unlock())
	}
	connections, err := stop()
	trouble = errors.Join(trouble, err)
	const seconds = int(loadFor / time.Second)
	got := Bounds{Requests: (r - requests) / seconds, Numbers: (n - numbers) / seconds, Connections: connections}
	late := machine.Late()
	t.Logf("%+v: %+v; no processor for %v", c, got, late.Round(time.Millisecond))
	if trouble != nil && late > loadLate { // then the figures are those of sessions that were lost, too
		t.Log(trouble)
	} else if most := l.Most(c); trouble != nil || got.Requests > most.Requests || got.Numbers > most.Numbers || got.Connections > most.Connections {
		t.Errorf("want at most %+v, and no error: %v", most, trouble)
	}
	must.Drain(t, holder)
	l.rest(t, "no request is left", func(_, busy int) bool { return busy == 0 })
	for i := range held { // nothing of the others is left
		must.Unlock(t, must.Lock(t, holder, nameOf(i)))
	}
	if err := parts.next(t, "everybody closes"); err != nil {
		t.Error(err)
	}
	must.Drain(t, holder)
	closeBackend(t.Context(), b, shut)
	l.rest(t, "no connection is left", func(connections, busy int) bool { return connections == 0 && busy == 0 })
}

// rest checks that a state of the server comes within five seconds.
func (l *Load) rest(t *testing.T, what string, come func(connections, busy int) bool) {
	t.Helper()
	var connections, busy int
	if !await.Eventually(5*time.Second, func() bool {
		connections, busy = l.Clients()
		return come(connections, busy)
	}) {
		t.Errorf("not within 5s: %s: got %d, %d of them busy", what, connections, busy)
	}
}

// watch has a stranger come five times a second, who must be served within a second of what
// the machine gives, until stop is called, which returns how many connections clients had
// at most, and how often the stranger was not served.
func (l *Load) watch(t *testing.T) (stop func() (connections int, err error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	most, before, errs, done := 0, 0, error(nil), make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			began, err := time.Now(), error(nil)
			starved := await.Starved(func() { err = l.Stranger(ctx) })
			if took := time.Since(began) - starved; ctx.Err() == nil && (err != nil || took > time.Second) {
				errs = errors.Join(errs, fmt.Errorf("another program connects and asks: got error %v after %v", err, took))
			}
			connections, _ := l.Clients()
			most, before = max(most, min(before, connections)), connections // a server counts one that closes for a moment
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	stop = func() (int, error) {
		cancel()
		<-done
		return most, errs
	}
	t.Cleanup(func() { _, _ = stop() })
	return stop
}
