// Package cutofftest cuts the holders of locks off from their store, whatever the store
// is, in both directions or in one. Each holder is notified before another client has the
// lock. Package storestest runs it over a real server of each store.
package cutofftest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/must"
)

// RunsEnv names the environment variable with the number of holders that are cut off.
const RunsEnv = "HOLDFAST_CUTS"

const (
	usual  = 12 // runs, without RunsEnv
	atOnce = 10 // holders
)

// Store is a store with a real server.
type Store struct {
	Addr string        // of the server, "host:port"
	TTL  time.Duration // of the locks

	// Open returns a Locker with a client of its own, which reaches the server at addr.
	// Both end with t.
	Open func(t *testing.T, addr string) *holdfast.Locker
}

// direction is what a cut keeps from arriving. No side gets an error.
type direction struct {
	name string
	cut  func(p *faultproxy.Proxy, on bool)
}

func directions() []direction {
	return []direction{
		{"both", (*faultproxy.Proxy).Blackhole},
		{"requests", (*faultproxy.Proxy).BlackholeRequests},
		{"answers", (*faultproxy.Proxy).BlackholeReplies},
	}
}

// Run cuts holders off, as many in each direction, at moments that are spread over the TTL.
func (s Store) Run(t *testing.T) {
	runs := numberOf(t)
	other := s.Open(t, s.Addr)
	ways := directions()
	early := make([][]time.Duration, len(ways)) // how long before the next grant, by direction
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(atOnce, runs) {
		wg.Go(func() {
			for i := range next {
				way, turn := i%len(ways), i/len(ways)
				after := s.TTL * time.Duration(len(ways)) / time.Duration(runs)
				after = time.Duration(turn)*after + rand.N(after)
				t.Run(fmt.Sprint(ways[way].name, turn), func(t *testing.T) {
					d := s.cutOff(t, other, ways[way], after)
					mu.Lock()
					defer mu.Unlock()
					early[way] = append(early[way], d)
				})
			}
		})
	}
	for i := range runs {
		next <- i
	}
	close(next)
	wg.Wait()
	for i, way := range ways {
		report(t, way.name, early[i])
	}
	report(t, "all", slices.Concat(early...))
}

// numberOf returns how many holders are to be cut off.
func numberOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv(RunsEnv)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < len(directions()) {
		t.Fatalf("%s is %q, want a number, %d or more", RunsEnv, text, len(directions()))
	}
	return n
}

func report(t *testing.T, what string, early []time.Duration) {
	t.Helper()
	if len(early) == 0 {
		t.Errorf("%s: no holder was notified", what)
		return
	}
	slices.Sort(early)
	t.Logf("%s: %d holders were notified before the next grant, at least %v before, in the median %v", what, len(early),
		early[0].Round(time.Millisecond), early[len(early)/2].Round(time.Millisecond))
}

// cutOff has a holder cut off after a time. It returns how long before the next grant the
// holder is notified.
func (s Store) cutOff(t *testing.T, other *holdfast.Locker, way direction, after time.Duration) time.Duration {
	proxy, err := faultproxy.RunRaw(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	name := fmt.Sprintf("cut-%s-%p", way.name, proxy)
	holder := s.Open(t, proxy.Addr())
	lock := must.Lock(t, holder, name)
	held := lock.Context(t.Context())
	notified := make(chan time.Time, 1)
	context.AfterFunc(held, func() { notified <- time.Now() })
	time.Sleep(after)
	if err := lock.Err(); err != nil {
		t.Fatalf("before the cut: %v", err)
	}
	way.cut(proxy, true)
	defer way.cut(proxy, false)
	next := must.Lock(t, other, name)
	granted := time.Now()
	if held.Err() == nil {
		t.Fatal("another client has the lock, and the holder is not notified")
	}
	early := granted.Sub(<-notified)
	if early <= 0 {
		t.Errorf("the holder was notified %v after the next grant", -early)
	}
	if !errors.Is(lock.Err(), holdfast.ErrLost) {
		t.Errorf("got error %v, want ErrLost", lock.Err())
	}
	way.cut(proxy, false) // what the former holder had sent arrives
	_ = lock.Unlock()
	if err := next.Unlock(); err != nil {
		t.Errorf("the next holder, when the former one is back: %v", err)
	}
	must.Unlock(t, must.Lock(t, holder, name))
	return early
}
