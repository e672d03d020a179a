package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// reportSoon is how long it takes at most until others see what a client holds and
// waits for, or that it no longer does.
const reportSoon = 10 * time.Second

func (s *subject) detail(c *admin.Console, name string) admin.Detail {
	s.Helper()
	d, err := c.Describe(s.Context(), name)
	if err != nil {
		s.Fatalf("Detail(%q): %v", name, err)
	}
	return d
}

// A reader learns the hold time and the token of a lock, and its waiters
// for it without a queue in Redis; who is refused, for how long it is held.
func TestOthersSeeSinceWhenAndWhoWaits(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		s.Run("all", func(t *testing.T) { // which ends when those in it have ended
			for _, o := range []redishold.Options{{KeyPrefix: "app:"}, {KeyPrefix: "{app}:"}, {KeyPrefix: "plain:", Layout: redishold.Plain}} {
				t.Run(o.KeyPrefix, func(t *testing.T) {
					t.Parallel()
					(&subject{T: t, adapter: s.adapter, server: s.server}).seeSince(o)
				})
			}
		})
		s.server.Do("FLUSHALL") // the counters of tokens
	})
}

func (s *subject) seeSince(o redishold.Options) {
	client := func(note string) *holdfast.Locker {
		return s.drained(holdfast.New(redishold.New(s.conn(s.server.Addr()), &o), &holdfast.Options{Note: note}))
	}
	l, waiter, eye := client("ci-7"), client("ci-8"), s.console(&o)
	lock := must.Lock(s, l, "deploy")
	if o.Layout == redishold.Redisson {
		permit, err := l.Semaphore("pool", 2).Acquire(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		defer func() {
			if h := lookAt(s, eye, "pool").Holds; len(h) != 1 || h[0].HeldFor < 2*time.Second || h[0].Token != permit.Token() {
				s.Errorf("permit: got %+v, want token %d", h, permit.Token())
			}
			must.Unlock(s, permit)
		}()
	}
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := waiter.Lock(ctx, "deploy"); !errors.Is(err, context.Canceled) {
				s.Errorf("got %v", err)
			}
		})
	}
	var d admin.Detail
	seen := await.Eventually(reportSoon, func() bool {
		d = s.detail(eye, "deploy")
		return len(d.Holds) == 1 && d.Holds[0].HeldFor > 0 && len(d.Waits) == 1 && d.Waits[0].Count == 3
	})
	if !seen {
		s.Fatalf("got %+v", d)
	}
	if h := d.Holds[0]; h.Token != lock.Token() || h.HeldFor < 2*time.Second || h.HeldFor > reportSoon+time.Second || h.Client.PID != os.Getpid() {
		s.Errorf("held: got %+v, want token %d", h, lock.Token())
	}
	if w := d.Waits[0]; w.Client.PID != os.Getpid() || w.Client.Note != "ci-8" || w.Waited < 2*time.Second || w.Waited > reportSoon+time.Second || w.Mode != driver.Exclusive {
		s.Errorf("waits: got %+v", w)
	}
	_, err := client("").TryLock(s.Context(), "deploy")
	var busy *holdfast.BusyError
	if !errors.As(err, &busy) || busy.HeldFor < 2*time.Second || !strings.Contains(err.Error(), `"deploy" is held by ci-7 for `) {
		s.Errorf("got %v", err)
	}
	if found := list(s, eye, admin.Filter{NamePrefix: "dep"}); len(found) != 1 || found["deploy"].Holds[0].Token != lock.Token() {
		s.Errorf("listed: got %+v, want the lock alone, with its token", found)
	}
	cancel()
	wg.Wait()
	must.Unlock(s, lock)
	if !await.Eventually(reportSoon, func() bool { return len(s.detail(eye, "deploy").Waits) == 0 }) {
		s.Error("those who have given up are still shown")
	}
	if keys := s.server.Strings("KEYS", o.KeyPrefix+"*waiting*"); len(keys) != 0 {
		s.Errorf("%q are left", keys)
	}
}

func (s *subject) backend(o *redishold.Options) *redishold.Backend {
	s.Helper()
	return redishold.New(s.conn(s.server.Addr()), o)
}

func waits(client string, names ...string) driver.Report {
	r := driver.Report{Client: client, Note: "me", TTL: 30 * time.Second}
	for _, name := range names {
		r.Waits = append(r.Waits, driver.ReportedWait{Name: name, Waited: 3 * time.Second, Count: 2})
	}
	return r
}

// There is room for so many clients at a lock; those that do not report any
// more make room for others, and the key ends by itself.
func TestWaitsHaveRoomForSoMany(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		const key, room = "holdfast:waiting:{job}", 128
		fill := func(at time.Time) {
			for i := range room {
				s.server.Do("HSET", key, fmt.Sprintf("%08d-2746-4f0e-9d4a-0f6f0b7f2c11", i), fmt.Sprintf(`{"at":%d,"count":1}`, at.UnixMilli()))
			}
		}
		b := s.backend(nil)
		report := func() {
			s.Helper()
			if err := b.Report(s.Context(), waits(javaClient, "job")); err != nil {
				s.Error(err)
			}
		}
		fill(time.Now())
		report()
		if n := s.server.Int("HEXISTS", key, javaClient); n != 0 {
			s.Error("it has come in where there is no room")
		}
		if pttl := s.server.Int("PTTL", key); pttl <= 0 || pttl > 10_000 {
			s.Errorf("the key ends in %d ms, want within 10 s", pttl)
		}
		d := s.detail(admin.New(b), "job")
		if len(d.Waits) == 0 || len(d.Waits) > 64 {
			s.Errorf("%d clients are shown, want some dozens", len(d.Waits))
		}
		fill(time.Now().Add(-time.Minute))
		report()
		if n, pttl := s.server.Int("HLEN", key), s.server.Int("PTTL", key); n != 1 || pttl <= 0 || pttl > 10_000 {
			s.Errorf("%d wait, for %d ms, want the one that was heard of", n, pttl)
		}
		report()
		if err := b.Report(s.Context(), waits(javaClient)); err != nil || s.server.Int("EXISTS", key) != 0 {
			s.Errorf("after the end the key is there, error %v", err)
		}
	})
}

// A user without the right to the key of waiters can lock and be shown; so
// can a reader without the permission to read it.
func TestReportWithoutRights(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		s.server.Do("ACL", "SETUSER", "app", "reset", "on", ">app", "+@all", "&*",
			"~app:job*", "~app:holdfast:token:*", "~app:holdfast:gone:*", "~app:holdfast:client:*", "~app:holdfast:fair:*", "~redisson_lock*", "~{app:*")
		conn, shut, err := dial.Server(s.adapter, s.server.Addr(), "app", "app")
		if err != nil {
			s.Fatal(err)
		}
		defer shut()
		b := redishold.New(conn, &redishold.Options{KeyPrefix: "app:"})
		l := holdfast.New(b, nil)
		lock := must.Lock(s, l, "job")
		h := s.detail(admin.New(b), "job").Holds[0]
		r := waits(h.Client.ID, "job")
		r.Holds = []driver.ReportedHold{{Name: "job", Owner: h.Owner, Token: lock.Token(), HeldFor: time.Minute}}
		if err := b.Report(s.Context(), r); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			s.Errorf("got %v, want that the user has no right to the key", err)
		}
		eye := admin.New(redishold.New(conn, &redishold.Options{KeyPrefix: "app:"}))
		d := s.detail(eye, "job")
		if got := d.Holds[0]; got.Token != lock.Token() || got.HeldFor < time.Minute || len(d.Waits) != 0 {
			s.Errorf("got %+v, want the hold all the same", d)
		}
		must.Unlock(s, lock)
		s.server.Do("FLUSHALL") // the counter of tokens
	})
}
