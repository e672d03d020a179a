package resources

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is one client of a deployment, as a program has it: one connection, and
// a Locker for each protocol that it speaks.
type program struct {
	redisson, plain *holdfast.Locker
	close           func()
}

// start connects a program. It ends with t, at the latest.
func start(t *testing.T, adapter string, d *redistest.Deployment) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, shut, err := dial.Open(ctx, dial.To(adapter, d))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		redisson: holdfast.New(redishold.New(conn, nil), &holdfast.Options{TTL: leaseOfAll}),
		plain:    holdfast.New(redishold.New(conn, &redishold.Options{Layout: redishold.Plain}), &holdfast.Options{TTL: leaseOfAll}),
	}
	closed := false
	p.close = func() {
		if closed {
			return
		}
		closed = true
		p.drain(t)
		shut()
	}
	t.Cleanup(p.close)
	return p
}

// leaseOfAll is long enough for a machine that is busy with other tests.
const leaseOfAll = 20 * time.Second

// drain waits for what the program does in the background.
func (p *program) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*leaseOfAll)
	defer cancel()
	for _, l := range []*holdfast.Locker{p.redisson, p.plain} {
		if err := l.Drain(ctx); err != nil {
			t.Errorf("Drain: %v", err)
		}
	}
}

// listening returns how many connections of a server listen on classic channels,
// and how many on sharded ones.
func listening(s *redistest.Server) (classic, sharded int) {
	for line := range strings.Lines(s.String("CLIENT", "LIST", "TYPE", "pubsub")) {
		if !strings.Contains(line, " sub=0 ") {
			classic++
		}
		if strings.Contains(line, " ssub=") && !strings.Contains(line, " ssub=0 ") {
			sharded++
		}
	}
	return classic, sharded
}

// channels returns what is subscribed to on a server.
func channels(s *redistest.Server) []string {
	all := s.Strings("PUBSUB", "CHANNELS")
	if sharded, ok := s.Do("PUBSUB", "SHARDCHANNELS").([]any); ok {
		for _, name := range sharded {
			if name, ok := name.(string); ok {
				all = append(all, name)
			}
		}
	}
	return all
}

// mustBeQuiet fails unless nobody listens on any server any more, soon.
func mustBeQuiet(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		quiet := func() bool {
			classic, sharded := listening(s)
			return classic+sharded+len(channels(s)) == 0
		}
		if !await.Eventually(5*time.Second, quiet) {
			classic, sharded := listening(s)
			t.Errorf("%s: %d and %d connections still listen, on %d channels", s.Addr(), classic, sharded, len(channels(s)))
		}
	}
}

// heap returns the bytes that are in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one only marked for a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
