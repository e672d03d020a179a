package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// A holder that is cut off learns that its lock is lost before the server's lease
// ends: 100 times of 100, whenever the cut comes, if the machine lets it run.
func TestBlackHoleIsNoticedBeforeTheLeaseEnds(t *testing.T) {
	const (
		atOnce = 20
		ttl    = 1500 * time.Millisecond
		margin = 450 * time.Millisecond // for this process to stand still, and to ask the server
	)
	runs := 5 * atOnce
	if testing.Short() {
		runs = 2 * atOnce
	}
	eachAdapter(t, func(s *subject) {
		var early, excused atomic.Int64
		var mu sync.Mutex
		var all []time.Duration
		for range runs / atOnce {
			var wg sync.WaitGroup
			for i := range atOnce {
				proxy := faultproxy.Start(s, s.server.Addr())
				conn := s.conn(proxy.Addr())
				l := holdfast.New(redishold.New(conn, nil), &holdfast.Options{TTL: ttl, Margin: margin})
				name := fmt.Sprintf("cut:%d", i)
				lock := must.Lock(s, l, name)
				wg.Go(func() {
					time.Sleep(rand.N(ttl))
					queued := judge.Queued(os.Getpid())
					proxy.Blackhole(true)
					<-lock.Context(s.Context()).Done()
					left := time.Duration(s.server.Int("PTTL", name)) * time.Millisecond
					switch {
					case left > 0:
						early.Add(1)
					case judge.Queued(os.Getpid())-queued >= margin: // waited for a processor
						excused.Add(1)
					default:
						s.Errorf("the lease had ended when the holder was told: %v", context.Cause(lock.Context(s.Context())))
					}
					mu.Lock()
					all = append(all, left)
					mu.Unlock()
					if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
						s.Errorf("Unlock: got %v, want ErrLost", err)
					}
					proxy.Blackhole(false)
				})
			}
			wg.Wait()
		}
		slices.Sort(all)
		s.Logf("told in time in %d of %d runs, at least %v before the lease ended, half of them %v", early.Load(), runs, all[0], all[runs/2])
		if excused.Load() > int64(runs)/10 {
			s.Errorf("%d runs had no processor in time: the machine is too busy to tell", excused.Load())
		}
		if all[runs/2] < margin-150*time.Millisecond {
			s.Errorf("half of the holders were told %v before the lease ended or later, want about %v", all[runs/2], margin)
		}
	})
}

// Scripts forgotten and subscribers killed, over and over, under load.
func TestFlushedScriptsAndKilledSubscribers(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		lockers := []*holdfast.Locker{s.locker(nil), s.other(nil), s.other(nil)}
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				s.server.FlushScripts()
				s.server.KillPubSub()
				time.Sleep(25 * time.Millisecond)
			}
		})
		var freed atomic.Int64 // when the last holder began to unlock, while it is not held
		var worst, rounds atomic.Int64
		began := time.Now()
		for i := range 12 {
			wg.Go(func() {
				for ctx.Err() == nil {
					lock, err := lockers[i%len(lockers)].Lock(s.Context(), "job")
					if err != nil {
						s.Error(err)
						return
					}
					gap := int64(time.Since(began)) - freed.Load()
					if rounds.Add(1) > 1 && gap > worst.Load() {
						worst.Store(gap)
					}
					time.Sleep(5 * time.Millisecond)
					freed.Store(int64(time.Since(began)))
					if err := lock.Unlock(); err != nil {
						s.Error(err)
					}
				}
			})
		}
		wg.Wait()
		within(s, "free while somebody waited", time.Duration(worst.Load()), 1100*time.Millisecond)
		s.Logf("%d hand-overs, the slowest took %v", rounds.Load(), time.Duration(worst.Load()))
		gone(s, s.server.Admin, 0)
	})
}

// A subscriber that hears nothing at all is late by one second at most.
func TestLostMessagesCostASecond(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		holder, waiter := s.other(nil), s.locker(nil)
		s.warm(waiter)
		for range 3 {
			lock := must.Lock(s, holder, "job")
			got := make(chan time.Time, 1)
			go func() {
				next, err := waiter.Lock(s.Context(), "job")
				at := time.Now()
				if err == nil {
					_ = next.Unlock()
				}
				got <- at
			}()
			if !await.Eventually(5*time.Second, func() bool {
				return s.server.Int("PUBSUB", "NUMPAT") >= 0 && len(s.server.Strings("PUBSUB", "CHANNELS")) > 0
			}) {
				s.Fatal("nobody subscribed")
			}
			// The message is lost: the key goes without one.
			s.server.Do("DEL", "job")
			start := time.Now()
			within(s, "the waiter got the lock", (<-got).Sub(start), 1450*time.Millisecond) // a sleep and a call; two sleeps take longer
			_ = lock.Unlock()
		}
	})
}

// A holder that loses its lock learns of it at the next renewal, with the reason.
func TestLossAndItsReason(t *testing.T) {
	const ttl = 3 * time.Second
	tests := []struct {
		name string
		lose func(s *subject)
		want driver.Reason
		text string
	}{
		{"deleted by hand", func(s *subject) { s.server.Do("DEL", "job") }, driver.ReasonDeleted, "deleted"},
		{"flushed", func(s *subject) { s.server.Do("FLUSHALL") }, driver.ReasonDeleted, "flushed"},
		{"broken", func(s *subject) {
			c := s.console(nil)
			if err := c.ForceUnlock(s.Context(), "job", lookAt(s, c, "job").Holds[0].Holder, "stuck since noon"); err != nil {
				s.Fatal(err)
			}
		}, driver.ReasonForced, "stuck since noon"},
		{"taken over", func(s *subject) {
			// At once: a renewal in between would find no lock at all.
			s.server.Do("EVAL", `redis.call('DEL', 'job') redis.call('HSET', 'job', ARGV[1], '1') redis.call('PEXPIRE', 'job', '5000')`,
				"0", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:57")
		}, driver.ReasonNotOwner, "Redisson client 71b96ce8"},
		{"overwritten", func(s *subject) { s.server.Do("SET", "job", "x", "PX", "5000") }, driver.ReasonDeleted, "overwritten"},
		{"evicted", func(s *subject) {
			s.server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
			s.server.Do("CONFIG", "SET", "maxmemory", "1")
			s.server.Do("SET", "more", "x", "PX", "5000") // makes the server look for room
			await.Eventually(time.Second, func() bool { return s.server.Int("EXISTS", "job") == 0 })
			s.server.Do("CONFIG", "SET", "maxmemory", "0")
		}, driver.ReasonEvicted, "evicted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				l := s.locker(&holdfast.Options{TTL: ttl})
				lock := must.Lock(s, l, "job")
				ctx := lock.Context(s.Context())
				tt.lose(s)
				start := time.Now()
				<-ctx.Done()
				within(s, "told", time.Since(start), ttl/3+500*time.Millisecond)
				for _, err := range []error{context.Cause(ctx), lock.Err(), lock.Unlock()} {
					var lost *holdfast.LostError
					if !errors.As(err, &lost) || lost.Reason != tt.want || !strings.Contains(err.Error(), tt.text) {
						t.Errorf("got %v, want a loss: %s, with %q", err, tt.want, tt.text)
					}
				}
				s.server.Do("DEL", "job", "more")
			})
		})
	}
}
