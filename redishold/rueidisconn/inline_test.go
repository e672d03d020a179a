package rueidisconn

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// A call runs in the goroutine of its caller only over a connection that has just answered:
// otherwise the caller might have to wait for a new connection, past its deadline.
func TestPlanInline(t *testing.T) {
	const none, own, common = adapter.NotInline, adapter.OverOwn, adapter.OverShared
	answers := func(conn *replies, replied bool) {
		conn.begin()
		conn.end(replied)
	}
	shared := func(replied bool) func(*library) { return func(l *library) { answers(&l.shared, replied) } }
	for _, tt := range []struct {
		name          string
		before        func(*library)
		alone, beside adapter.InlinePlan // without and with another call in flight
	}{
		{"nothing was answered", func(*library) {}, none, none},
		{"the shared connection has answered", shared(true), common, common},
		{"it has answered long ago", func(l *library) { shared(true)(l); time.Sleep(freshFor) }, none, none},
		{"its last call failed", func(l *library) { shared(true)(l); shared(false)(l) }, none, none},
		{"its reply is overdue", func(l *library) {
			shared(true)(l)
			l.shared.begin()
			time.Sleep(2 * silentAfter)
		}, none, none},
		{"a connection was closed since", func(l *library) {
			l.shared.closed = new(atomic.Int64)
			shared(true)(l)
			l.shared.closed.Add(1)
		}, none, none},
		{"a connection of the pool has answered", func(l *library) { answers(&l.pool, true) }, own, none},
		{"both have answered", func(l *library) { answers(&l.pool, true); shared(true)(l) }, own, common},
		{"the pool's last call failed", func(l *library) { answers(&l.pool, true); answers(&l.pool, false) }, none, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{inline: &inline{sync: true, ping: func() {}}}
				tt.before(l)
				alone := l.PlanInline(0)
				beside := l.PlanInline(1)
				if alone != tt.alone || beside != tt.beside {
					t.Errorf("got %v alone and %v beside another call, want %v and %v", alone, beside, tt.alone, tt.beside)
				}
				if got := l.PlanInterruptible(); got != tt.beside { // the connection of the pool does not end with its caller
					t.Errorf("got %v for a caller that may give up, want %v", got, tt.beside)
				}
			})
		})
	}
}

// If calls come often, and no connection of the pool is known to live, one PING finds out.
func TestPingBeforeThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		l := &library{inline: &inline{sync: true, ping: func() { pings++ }}}
		for range 3 {
			l.PlanInline(0)
			time.Sleep(freshFor)
		}
		if synctest.Wait(); pings != 0 {
			t.Errorf("%d PINGs for rare calls, want none", pings)
		}
		for range 3 {
			l.PlanInline(0)
		}
		if synctest.Wait(); pings != 1 {
			t.Errorf("%d PINGs for calls that come often, want one", pings)
		}
	})
}

// The longer a round trip, the more calls are few: the processor has time for a pipeline for
// each of them.
func TestFewCalls(t *testing.T) {
	for _, tt := range []struct {
		trip time.Duration
		want int
	}{{0, 16}, {100 * time.Microsecond, 16}, {400 * time.Microsecond, 20}, {2 * time.Millisecond, 100}, {time.Second, 128}} {
		l := &library{}
		l.shared.trip.Store(int64(tt.trip))
		if got := l.FewCalls(); got != tt.want {
			t.Errorf("with round trips of %v: got %d, want %d", tt.trip, got, tt.want)
		}
	}
}

// A call uses the connection of its plan.
func TestRunInlineAsPlanned(t *testing.T) {
	for _, plan := range []adapter.InlinePlan{adapter.OverOwn, adapter.OverShared} {
		conn := openScripted(t)
		l := conn.library
		r := l.RunInline(t.Context(), plan, &redishold.Call{Script: wire.NewScript("test", "return 1")})
		own := l.pool.trip.Load() != 0
		common := l.shared.trip.Load() != 0
		if r.Err != nil || own != (plan == adapter.OverOwn) || common != (plan == adapter.OverShared) {
			t.Errorf("plan %d: got error %v, over a connection of its own %v, over the shared one %v", plan, r.Err, own, common)
		}
	}
}

// openScripted returns a Conn of a server that answers each script with 1.
func openScripted(t *testing.T) *Conn {
	t.Helper()
	addr := serve(t, nil, func(command string) string {
		if strings.HasPrefix(command, "EVALSHA") {
			return ":1\r\n"
		}
		return ""
	})
	conn, err := Open(t.Context(), "redis://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestRoundTripsAreMeasured(t *testing.T) {
	conn := openScripted(t)
	l, call := conn.library, &redishold.Call{Script: wire.NewScript("test", "return 1")}
	l.Send(t.Context(), adapter.Destination{}, []*redishold.Call{call}, make([]redishold.Result, 1))
	if l.shared.trip.Load() == 0 {
		t.Error("the length of a round trip is not known after a call")
	}
	if conn.Close(); l.shared.closed.Load() == 0 || l.pool.closed.Load() == 0 {
		t.Error("closed connections are not counted")
	}
}
