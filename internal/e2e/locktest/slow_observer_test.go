package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

// 2,000 locks with a lease of 3 s, and an observer that takes 20 ms for an event of a
// renewal: none is lost that the server keeps, and the holder of one that was deleted
// by hand learns it within one renewal.
func TestSlowObserver(t *testing.T) {
	await.NotShort(t, "takes long")
	const (
		many = 2000
		ttl  = 3 * time.Second
	)
	eachAdapter(t, func(s *subject) {
		l := holdfast.New(redishold.New(s.conn(s.server.Addr()), nil), &holdfast.Options{TTL: ttl, Observe: func(_ context.Context, e holdfast.Event) {
			if e.Type == holdfast.EventRenew || e.Type == holdfast.EventCall && e.Op == holdfast.OpRenew {
				time.Sleep(20 * time.Millisecond)
			}
		}})
		var mutexes []*holdfast.Mutex
		for i := range many {
			mutexes = append(mutexes, l.Mutex(fmt.Sprintf("slow:%d", i)))
		}
		locks, err := holdfast.LockAll(s.Context(), mutexes)
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(2 * ttl)
		deleted := locks[many/2]
		ctx := deleted.Context(s.Context())
		s.server.Do("DEL", deleted.Name())
		start := await.NewWatch(s)
		<-ctx.Done()
		if took := start.Took(); took > ttl/3+time.Second {
			s.Errorf("the holder learned after %v that its lock was deleted, want one renewal, %v", took, ttl/3)
		}
		time.Sleep(ttl)
		for _, lock := range locks {
			if err := lock.Err(); err != nil && lock != deleted {
				s.Errorf("lost, and the server kept it: %v", err)
			}
		}
		if err := locks.Unlock(); !errors.Is(err, holdfast.ErrLost) {
			s.Errorf("Unlock: got %v, want the loss of the one that was deleted", err)
		}
	})
}
