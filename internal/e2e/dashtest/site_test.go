package dashtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// Two clients of Redisson, as they name themselves.
const (
	java    = "8743c9c0-0795-4907-87fd-6c719a6b4586"
	another = "1b9f7a4e-5a0c-4be4-9c67-2f4f7b1a9d10"
)

// site is a dashboard of a real Redis.
type site struct {
	*testing.T
	redis  *redistest.Server
	server *httptest.Server
	dash   atomic.Pointer[dash.Dashboard]
	client *holdfast.Locker // of programs that take locks

	holders int64 // how many there were of change
}

func start(t *testing.T, opts *dash.Options) *site {
	t.Helper()
	s := &site{T: t, redis: redistest.Start(t)}
	s.client = holdfast.New(redishold.New(s.connect(), nil), nil)
	s.serve(dash.Handler(admin.New(redishold.New(s.connect(), nil)), opts))
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.dash.Load().ServeHTTP(w, r) }))
	t.Cleanup(func() {
		s.dash.Load().Close()
		s.server.Close()
	})
	return s
}

// serve makes d what the server shows from now on.
func (s *site) serve(d *dash.Dashboard) { s.dash.Store(d) }

// asking is what Until of a tab adds to the time that something takes.
const asking = 150 * time.Millisecond

// promised lets act do something, and fails unless the time that it returns is
// within limit, and what the machine kept this process waiting for meanwhile.
func (s *site) promised(what string, limit time.Duration, act func() time.Duration) {
	s.Helper()
	var took time.Duration
	late := await.Starved(func() { took = act() })
	s.Logf("%s within %v; the machine stood still for %v", what, took, late)
	if took > limit+late {
		s.Errorf("%s within %v, want %v; the machine stood still for %v", what, took, limit, late)
	}
}

// click clicks on what a selector finds, which an update of the page may replace at
// any moment: in one step, unlike Click of chromedp.
func click(p *browser.Tab, selector string) {
	p.Helper()
	browser.Eval[bool](p, fmt.Sprintf("(document.querySelector(%q).click(), true)", selector))
}

func (s *site) connect() *rueidisconn.Conn {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	conn, err := rueidisconn.Open(ctx, s.redis.URL(), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(conn.Close)
	return conn
}

func (s *site) url(path string) string { return s.server.URL + "/" + path }

func (s *site) lock(name string, opts ...holdfast.Option) *holdfast.Lock {
	s.Helper()
	lock, err := s.client.TryLock(s.Context(), name, opts...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

// javaLock takes a lock as Redisson does.
func (s *site) javaLock(name, owner string, ttl time.Duration) {
	s.redis.Do("HSET", name, owner, "1")
	s.redis.Do("PEXPIRE", name, itoa(ttl.Milliseconds()))
}

func everybodyOperates(*http.Request) dash.Role { return dash.Operator }

// furnish takes locks of many kinds.
func (s *site) furnish() {
	s.Helper()
	ctx := s.Context()
	s.lock("deploy/prod")
	s.lock("stock:42", holdfast.FixedLease(10*time.Minute))
	s.lock("backup of <db> & \"all\"\n\x00", holdfast.FixedLease(5*time.Minute))
	s.javaLock("orders:7", java+":42", 30*time.Second)
	s.javaLock("anyLock", another+":1", time.Hour)
	s.redis.Do("HSET", "prices", "mode", "read", java+":51", "1", another+":8", "1")
	s.redis.Do("PEXPIRE", "prices", "60000")
	for _, reader := range []string{java + ":51", another + ":8"} {
		s.redis.Do("SET", "{prices}:"+reader+":rwlock_timeout:1", "1", "PX", "60000")
	}
	s.hold(s.client.Semaphore("pool", 5).Acquire(ctx))
	s.hold(s.client.FairMutex("billing").Lock(ctx))
	for range 2 {
		waiting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if lock, err := s.client.FairMutex("billing").Lock(waiting); err == nil {
				_ = lock.Unlock()
			}
		}()
		s.Cleanup(func() { cancel(); <-done })
	}
}

func (s *site) hold(lock *holdfast.Lock, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = lock.Unlock() })
}
