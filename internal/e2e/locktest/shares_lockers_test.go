package locktest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// Two Lockers of one process take turns as two processes do, whatever they share: a Backend, a
// Conn, or only the server. The first Locker has four goroutines, and the second has one. The
// bounds are those that docs/guarantees.md has for processes.
func TestSharesOfLockers(t *testing.T) {
	await.NotShort(t, "takes long")
	for _, topology := range []redistest.Topology{redistest.Standalone, redistest.Cluster} {
		d := redistest.StartDeployment(t, topology)
		for _, adapter := range dial.Adapters() {
			for _, shared := range []string{"Backend", "Conn", "server"} {
				name := fmt.Sprintf("%s/%s/one %s", topology, adapter, shared)
				t.Run(name, func(t *testing.T) {
					first, second := twoLockers(t, dial.To(adapter, d), shared)
					judgeLockers(t, playLockers(t, name, first, second))
				})
			}
		}
	}
}

const (
	lockersFor  = 3 * time.Second
	lockersHold = 2 * time.Millisecond
	// lockersTurn is the longest turn of a Locker: a hold, and the time for which the lock is
	// passed on.
	lockersTurn = lockersHold + 50*time.Millisecond
	lockersMost = 3*2*lockersTurn + 500*time.Millisecond
)

// twoLockers returns two Lockers that share a Backend, a Conn, or only the server.
func twoLockers(t *testing.T, to dial.Target, shared string) (first, second *holdfast.Locker) {
	t.Helper()
	open := func() redishold.Conn {
		conn, shut, err := dial.Open(await.Context(t, 10*time.Second), to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(shut)
		return conn
	}
	conn := open()
	backend := redishold.New(conn, nil)
	other := backend
	switch shared {
	case "Conn":
		other = redishold.New(conn, nil)
	case "server":
		other = redishold.New(open(), nil)
	}
	return holdfast.New(backend, nil), holdfast.New(other, nil)
}

// playLockers has the goroutines of two Lockers want one lock all the time.
func playLockers(t *testing.T, name string, first, second *holdfast.Locker) shares {
	t.Helper()
	p := sharePlan{Name: name, Hold: lockersHold, Use: equal}
	users := []*sharer{{sharePlan: p, l: first}, {sharePlan: p, l: second}}
	users[0].Goroutines, users[1].Goroutines = 4, 1
	ctx := await.Context(t, lockersFor)
	var all sync.WaitGroup
	all.Go(worker.Watch(ctx, users[0].stalled))
	for _, u := range users {
		all.Go(func() {
			if err := u.visit(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, u := range users {
		must.Drain(t, u.l)
	}
	return sharesOf([]shareReport{users[0].report, users[1].report}, lockersFor)
}

// judgeLockers fails the test if a Locker had too few turns, or waited for too long.
func judgeLockers(t *testing.T, s shares) {
	t.Helper()
	t.Log(s)
	if turns, _ := s.least(); turns < shareLeast {
		t.Errorf("a Locker had %.2f of its share of the turns, want at least %v", turns, shareLeast)
	}
	if longest := s.longestWait(); longest > lockersMost {
		t.Errorf("a Locker waited for %v, want at most %v", longest, lockersMost)
	}
}
