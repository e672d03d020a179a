package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// The callers of a process give up while its quiet release is on its way, for example because
// the service shuts down. Others hear of the release after it has run: a waiter of Holdfast has
// the lock at once, and a plain subscriber gets a message, as Redisson does, which asks at no
// other time. The proxy delays that one release, as a slow connection would.
func TestWakeFollowsTheQuietRelease(t *testing.T) {
	const (
		name  = "job"
		limit = 100 * time.Millisecond
	)
	for when, asleep := range map[string]bool{"before another process waits": false, "while another process sleeps": true} {
		t.Run(when, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				waits := make(chan struct{}, 3)
				leaving := s.locker(&holdfast.Options{Handoff: holdfast.Handoff{Max: -1}, Observe: func(_ context.Context, e holdfast.Event) {
					if e.Type == holdfast.EventWait && e.Name == name {
						waits <- struct{}{}
					}
				}})
				holder := s.other(nil)
				staying, asks := s.watched()
				for _, l := range []*holdfast.Locker{holder, leaving, staying} {
					s.warm(l)
				}
				first := must.Lock(s, holder, name)

				ctx, cancel := context.WithCancel(s.Context())
				defer cancel()
				var callers sync.WaitGroup
				defer callers.Wait()
				gaveUp := make(chan error, cap(waits)-1) // the one that unlocks waits for the release
				for range cap(waits) {
					callers.Go(func() {
						lock, err := leaving.Lock(ctx, name)
						if err != nil {
							gaveUp <- err
							return
						}
						must.Unlock(s, lock)
					})
					<-waits
				}
				giveUp := func() {
					cancel()
					for range cap(gaveUp) {
						if err := <-gaveUp; !errors.Is(err, context.Canceled) {
							s.Errorf("got error %v, want that the context has ended", err)
						}
					}
				}
				await.Until(s, 10*time.Second, "the process that leaves listens", func() bool { return listeners(s, name) == 1 })
				quiet := s.proxy.On(quietRelease(s, name), faultproxy.DelayRequest(0))
				must.Unlock(s, first) // the first caller gets the lock after a wait: this begins a burst
				quiet.Wait(s, 1)

				heard := s.server.Listen(channelOf(name))
				if !asleep {
					giveUp()
				}
				asked := asks()
				granted := make(chan error, 1)
				go func() {
					lock, err := staying.Lock(s.Context(), name)
					granted <- err
					if err == nil {
						_ = lock.Unlock()
					}
				}()
				asked.Wait(s, 2) // the second time when it listens: now it sleeps for a second, if nothing wakes it
				if asleep {
					giveUp()
				}
				before := len(heard.Messages())
				watch := await.NewWatch(s)
				quiet.Release()
				if err := <-granted; err != nil {
					s.Fatal(err)
				}
				took := watch.Took()
				within(s, "the lock was free, and the waiter of another process got it", took, limit)
				if next := heard.Wait(before + 1)[before].Payload; next != "0" {
					s.Errorf("after the release a plain subscriber got %q first, want the message of an unlock; before the release it got %q", next, heard.Messages()[:before])
				}
			})
		})
	}
}

// watched returns a Locker of another client. The function asks returns a rule that counts its
// tries from then on.
func (s *subject) watched() (l *holdfast.Locker, asks func() *faultproxy.Rule) {
	s.Helper()
	proxy := faultproxy.Start(s, s.server.Addr())
	l = s.drained(holdfast.New(redishold.New(s.conn(proxy.Addr()), nil), nil))
	unchanged := faultproxy.Rewrite(func(reply string) string { return reply })
	return l, func() *faultproxy.Rule {
		return proxy.On(faultproxy.Script(redistest.ScriptSHA(s, "acquire")), unchanged, faultproxy.Always())
	}
}

// quietRelease matches the releases of a name that publish nothing: they name no command that
// would.
func quietRelease(s *subject, name string) faultproxy.Match {
	s.Helper()
	release := faultproxy.Script(redistest.ScriptSHA(s, "release"))
	return func(cmd []string) bool { // EVALSHA, the digest, 1, the lock, the owner, the channel
		return release(cmd) && len(cmd) == 6 && slices.Contains(cmd, name)
	}
}

func channelOf(name string) string { return "redisson_lock__channel:{" + name + "}" }

// listeners returns how many clients have subscribed to the channel of a name.
func listeners(s *subject, name string) int64 {
	reply, _ := s.server.Do("PUBSUB", "NUMSUB", channelOf(name)).([]any)
	if len(reply) != 2 {
		return -1
	}
	n, _ := reply[1].(int64)
	return n
}
