package permittest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

const (
	permits = 3
	workers = 6  // of each language
	visits  = 25 // of each worker
)

// crowd has workers of both languages take permits of the case's semaphore, and
// wants no more of them inside at a time than there are permits. All count
// themselves in and out at one key.
func crowd(t *testing.T, b *redisson.Bench, kind string, take func(context.Context) (release func() error, err error)) {
	t.Helper()
	counter := b.Name + ":counter"
	var answers []redisson.Answer
	for i := range workers {
		j := redisson.ThreadOf(t, b.Java, fmt.Sprintf("%s-%d", b.Name, i))
		answers = append(answers, j.Begin(peer.Command{Op: "stress", Kind: kind, Name: b.Name, N: visits, Value: counter}))
	}
	var most atomic.Int64
	var team sync.WaitGroup
	for range workers {
		team.Go(func() {
			for range visits {
				if !visit(t, b, counter+":in", take, &most) {
					return
				}
			}
		})
	}
	team.Wait()
	inside := most.Load()
	for _, a := range answers {
		inside = max(inside, a.Wait().Int())
	}
	if inside != permits {
		t.Errorf("at most %d were inside at once, want all %d permits in use, and no more", inside, permits)
	}
	b.Admin().Int("DEL", counter, counter+":in")
}

// visit holds a permit once, and says whether all went well.
func visit(t *testing.T, b *redisson.Bench, in string, take func(context.Context) (func() error, error), most *atomic.Int64) bool {
	release, err := take(t.Context())
	if err != nil {
		t.Errorf("Go: %v", err)
		return false
	}
	inside, ok := b.Admin().Do("INCR", in).(int64)
	for {
		seen := most.Load()
		if seen >= inside || most.CompareAndSwap(seen, inside) {
			break
		}
	}
	_, ok2 := b.Admin().Do("DECR", in).(int64)
	if !ok || !ok2 {
		t.Error("the server did not count")
	}
	if err := release(); err != nil {
		t.Errorf("Go: %v", err)
		return false
	}
	return true
}
