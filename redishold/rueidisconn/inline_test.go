package rueidisconn

import (
	"testing"
	"testing/synctest"
	"time"
)

// A call runs in the goroutine of its caller only over a connection that has just answered:
// otherwise the caller might have to wait for a new connection, past its deadline.
func TestMayInline(t *testing.T) {
	answers := func(conn *replies, replied bool) {
		conn.begin()
		conn.end(replied)
	}
	shared := func(replied bool) func(*library) { return func(l *library) { answers(&l.shared, replied) } }
	for _, tt := range []struct {
		name          string
		before        func(*library)
		alone, beside bool // what MayInline returns without and with another call in flight
	}{
		{"nothing was answered", func(*library) {}, false, false},
		{"the shared connection has answered", shared(true), true, true},
		{"it has answered long ago", func(l *library) { shared(true)(l); time.Sleep(freshFor) }, false, false},
		{"its last call failed", func(l *library) { shared(true)(l); shared(false)(l) }, false, false},
		{"its reply is overdue", func(l *library) {
			shared(true)(l)
			l.shared.begin()
			time.Sleep(2 * silentAfter)
		}, false, false},
		{"a connection of the pool has answered", func(l *library) { answers(&l.pool, true) }, true, false},
		{"the pool's last call failed", func(l *library) { answers(&l.pool, true); answers(&l.pool, false) }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{inline: &inline{sync: true, ping: func() {}}}
				tt.before(l)
				alone, beside := l.MayInline(time.Minute, 0), l.MayInline(time.Minute, 1)
				if alone != tt.alone || beside != tt.beside {
					t.Errorf("got %v alone and %v beside another call, want %v and %v", alone, beside, tt.alone, tt.beside)
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
			l.MayInline(time.Minute, 0)
			time.Sleep(freshFor)
		}
		if synctest.Wait(); pings != 0 {
			t.Errorf("%d PINGs for rare calls, want none", pings)
		}
		for range 3 {
			l.MayInline(time.Minute, 0)
		}
		if synctest.Wait(); pings != 1 {
			t.Errorf("%d PINGs for calls that come often, want one", pings)
		}
	})
}
