package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A context that ends while Redis does not answer ends the call, and what the
// call may have done is taken back.
func TestContextEndsWhileRedisHangs(t *testing.T) {
	type hang struct{ begin, end func(s *subject) }
	var held *faultproxy.Rule
	hangs := map[string]hang{
		"paused":       {func(s *subject) { s.server.Pause() }, func(s *subject) { s.server.Resume() }},
		"black hole":   {func(s *subject) { s.proxy.Blackhole(true) }, func(s *subject) { s.proxy.Blackhole(false) }},
		"replies held": {func(s *subject) { held = s.proxy.On(faultproxy.Any, faultproxy.HoldReply(), faultproxy.Always()) }, func(*subject) { held.Release() }},
	}
	for name, h := range hangs {
		t.Run(name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				l := s.locker(&holdfast.Options{TTL: 5 * time.Second})
				s.warm(l)
				h.begin(s)
				over := make(chan struct{})
				cancelled, cancel := context.WithCancel(s.Context())
				expired, stop := context.WithTimeout(s.Context(), 200*time.Millisecond)
				defer stop()
				time.AfterFunc(200*time.Millisecond, func() { cancel(); close(over) })
				start := time.Now()
				var wg sync.WaitGroup
				for ctx, want := range map[context.Context]error{cancelled: context.Canceled, expired: context.DeadlineExceeded} {
					for _, name := range []string{"one", "two"} {
						for _, lock := range []func(context.Context, string, ...holdfast.Option) (*holdfast.Lock, error){l.Lock, l.TryLock} {
							wg.Go(func() {
								_, err := lock(ctx, name)
								if errors.Is(err, holdfast.ErrBusy) {
									return // behind another goroutine of the process
								}
								if !errors.Is(err, want) {
									s.Errorf("got %v, want %v", err, want)
								}
								within(s, "the call returned after its context", time.Since(start)-200*time.Millisecond, 250*time.Millisecond)
							})
						}
					}
				}
				wg.Wait()
				<-over
				h.end(s)
				gone(s, s.server.Admin, time.Second)
				must.Unlock(s, must.Lock(s, l, "one"))
				s.nothingComes(l)
			})
		})
	}
}

// If Redis does not come back to this client, the lease ends what was granted.
func TestNothingIsLeftAfterOneTTL(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const ttl = 1500 * time.Millisecond
		l := s.locker(&holdfast.Options{TTL: ttl})
		s.warm(l)
		held := s.proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "acquire")), faultproxy.HoldReply())
		ctx, cancel := context.WithCancel(s.Context())
		go func() {
			defer cancel()
			held.Wait(s, 1)
			s.proxy.Blackhole(true)
		}()
		if _, err := l.Lock(ctx, "stock:42"); !errors.Is(err, context.Canceled) {
			s.Errorf("got %v, want the context's error", err)
		}
		if got := lockKeys(s.server.Admin); len(got) != 1 {
			s.Errorf("got %q, want the lock that was granted", got)
		}
		gone(s, s.server.Admin, ttl)
		s.proxy.Blackhole(false)
		s.nothingComes(l)
	})
}

// nothingComes fails if something of a lock is on the server, or comes to be there
// once all that was under way has arrived: when the Locker has no clean-up left and the
// server has read its last connection to the end.
func (s *subject) nothingComes(l *holdfast.Locker) {
	s.Helper()
	gone(s, s.server.Admin, 0)
	if err := l.Drain(s.Context()); err != nil {
		s.Errorf("Drain: %v", err)
	}
	s.shut()
	clients := func() int { return strings.Count(s.server.String("CLIENT", "LIST"), "\n") }
	await.Until(s, 5*time.Second, "the server has read every connection to its end", func() bool { return clients() == 1 })
	gone(s, s.server.Admin, 0)
}
