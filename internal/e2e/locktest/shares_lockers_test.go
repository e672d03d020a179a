package locktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
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

// lockerUse is what the goroutines of one Locker saw.
type lockerUse struct {
	locker     *holdfast.Locker
	goroutines int

	mu           sync.Mutex
	turns, holds int
	last         uint64        // the last token; the token after it was passed on
	longest      time.Duration // the longest wait, net of the time in which the process had no processor
}

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
func playLockers(t *testing.T, name string, first, second *holdfast.Locker) []*lockerUse {
	t.Helper()
	uses := []*lockerUse{{locker: first, goroutines: 4}, {locker: second, goroutines: 1}}
	watch, ctx := await.NewWatch(t), await.Context(t, lockersFor)
	var all sync.WaitGroup
	for _, u := range uses {
		for range u.goroutines {
			all.Go(func() {
				for ctx.Err() == nil {
					if err := u.take(ctx, name, watch); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	for _, u := range uses {
		if err := u.locker.Drain(await.Context(t, 5*time.Second)); err != nil {
			t.Error(err)
		}
	}
	return uses
}

// take takes the lock once. A wait that ctx ends counts, too.
func (u *lockerUse) take(ctx context.Context, name string, watch *await.Watch) error {
	called := watch.Took()
	lock, err := u.locker.Lock(ctx, name)
	u.waited(watch.Took() - called)
	if err != nil {
		return err
	}
	u.had(lock.Token())
	<-time.After(lockersHold)
	return lock.Unlock()
}

func (u *lockerUse) waited(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.longest = max(u.longest, d)
}

func (u *lockerUse) had(token uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if token != u.last+1 {
		u.turns++
	}
	u.last = token
	u.holds++
}

// judgeLockers fails the test if a Locker had too few turns, or waited for too long.
func judgeLockers(t *testing.T, uses []*lockerUse) {
	t.Helper()
	all := 0
	for _, u := range uses {
		t.Logf("%d goroutines: %d turns, %d holds, longest wait %v", u.goroutines, u.turns, u.holds, u.longest.Round(time.Millisecond))
		all += u.turns
	}
	for _, u := range uses {
		if share := float64(u.turns*len(uses)) / float64(max(all, 1)); share < shareLeast {
			t.Errorf("the Locker with %d goroutines had %.2f of its share of the turns, want at least %v", u.goroutines, share, shareLeast)
		}
		if u.longest > lockersMost {
			t.Errorf("the Locker with %d goroutines waited for %v, want at most %v", u.goroutines, u.longest, lockersMost)
		}
	}
}
