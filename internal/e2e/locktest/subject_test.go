package locktest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// subject is a Locker on one adapter, with a fault proxy between it and a server
// of its own.
type subject struct {
	*testing.T
	adapter string
	server  *redistest.Server
	proxy   *faultproxy.Proxy
	shut    func() // closes the connection of the latest Locker; the test's end does so too
}

// eachAdapter runs test once for each adapter, or with -short or HOLDFAST_ADAPTERS=one for
// one that its name picks, and checks that no goroutine and no key without a TTL is left at the end.
func eachAdapter(t *testing.T, test func(s *subject), opts ...redistest.Option) {
	t.Helper()
	those := dial.Adapters()
	if testing.Short() || os.Getenv("HOLDFAST_ADAPTERS") == "one" {
		pick := len(t.Name()) % len(those)
		those = those[pick : pick+1]
	}
	for _, adapter := range those {
		t.Run(adapter, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { // clean-up goes on for as long as one TTL
				if !await.Eventually(5*time.Second, func() bool { return goleak.Find(ignore) == nil }) {
					goleak.VerifyNone(t, ignore)
				}
			})
			server := redistest.Start(t, opts...)
			s := &subject{T: t, adapter: adapter, server: server, proxy: faultproxy.Start(t, server.Addr())}
			test(s)
			if keys := server.KeysWithoutTTL(isCounter); len(keys) != 0 {
				t.Errorf("keys without a TTL: %q", keys)
			}
		})
	}
}

// locker returns a Locker that talks to the server through the proxy.
func (s *subject) locker(opts *holdfast.Options) *holdfast.Locker {
	s.Helper()
	return s.drained(holdfast.New(redishold.New(s.conn(s.proxy.Addr()), nil), opts))
}

// other returns a Locker of another client, which talks to the server directly.
func (s *subject) other(opts *holdfast.Options) *holdfast.Locker {
	s.Helper()
	return s.drained(holdfast.New(redishold.New(s.conn(s.server.Addr()), nil), opts))
}

// console returns a Console that talks to the server directly, over a client of its
// own.
func (s *subject) console(o *redishold.Options) *admin.Console {
	s.Helper()
	return admin.New(redishold.New(s.conn(s.server.Addr()), o))
}

// drained lets a Locker finish its clean-up before its connection is closed, as
// a program should that ends.
func (s *subject) drained(l *holdfast.Locker) *holdfast.Locker {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := l.Drain(ctx); err != nil {
			s.Error(err)
		}
	})
	return l
}

func (s *subject) conn(addr string) redishold.Conn {
	s.Helper()
	conn, shut, err := dial.Server(s.adapter, addr, "", "")
	if err != nil {
		s.Fatal(err)
	}
	s.shut = sync.OnceFunc(shut)
	s.Cleanup(s.shut)
	return conn
}

// warm takes and releases a lock, so that connections, probe and registration
// are done before a fault is set up.
func (s *subject) warm(l *holdfast.Locker) {
	s.Helper()
	must.Unlock(s, must.Lock(s, l, "warm"))
}

// isCounter accepts the keys that may live forever: fencing token counters.
func isCounter(key string) bool { return strings.HasPrefix(key, "holdfast:token:{") }

// lockKeys returns the keys that are neither counters nor pass by themselves: what
// of a lock remains.
func lockKeys(a redistest.Admin) []string {
	var left []string
	for _, key := range a.Keys() {
		if !isCounter(key) && !redistest.Passing(key) {
			left = append(left, key)
		}
	}
	return left
}

// gone fails unless all of the locks' keys have vanished within d.
func gone(t testing.TB, a redistest.Admin, d time.Duration) {
	t.Helper()
	if !await.Eventually(d, func() bool { return len(lockKeys(a)) == 0 }) {
		t.Errorf("after %v there is still %q", d, lockKeys(a))
	}
}

// within fails unless got is at most limit.
func within(t testing.TB, what string, got, limit time.Duration) {
	t.Helper()
	if got > limit {
		t.Errorf("%s: got %v, want at most %v", what, got, limit)
	}
}
