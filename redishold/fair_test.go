package redishold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

func fairTestClaim(name string) driver.Claim {
	c := testClaim(name)
	c.Fair = true
	return c
}

func TestFairWait(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "300000", -time.Second: "300000", time.Minute: "60000"} {
		conn := &fakeConn{}
		mustTry(t, New(conn, &Options{FairWait: wait}), fairTestClaim("orders"))
		args := conn.sent[len(conn.sent)-1][0].Args
		if args[5] != want || args[6] != "redisson_lock__channel:{orders}:" {
			t.Errorf("FairWait %v: got %q, want %s ms, and what a waiter's channel begins with", wait, args, want)
		}
	}
}

func TestEachKindIsProbedOnce(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, nil)
	for range 2 {
		for _, c := range []driver.Claim{fairTestClaim("orders"), testClaim("stock"), testReader("book"), testWriter("book")} {
			mustTry(t, b, c)
		}
	}
	var probes []Call
	for _, calls := range conn.sent {
		if calls[0].Script.Name() == "probe" {
			probes = append(probes, calls[0])
		}
	}
	if len(probes) != 3 {
		t.Fatalf("got %d probes, want one for each kind", len(probes))
	}
	if keys := probes[2].Keys; len(keys) != 4 {
		t.Errorf("KEYS of the probe for readers and writers: got %q, want the timeout key too", keys)
	}
}

func TestAKindThatIsRefusedDoesNotStopOthers(t *testing.T) {
	const cannot = "ERR The user executing the script can't run this command or subcommand"
	conn := &fakeConn{answer: func(c Call) Result {
		if c.Script.Name() == "probe" && slices.Contains(c.Args, "RPUSH") {
			return Result{Value: []any{int64(1), "RPUSH", cannot}}
		}
		return Result{}
	}}
	b := New(conn, nil)
	for range 2 {
		_, err := b.Try(t.Context(), fairTestClaim("orders"))
		wantErrors(t, "fair", err, driver.ErrRefused, driver.ErrNotExecuted)
		if err != nil && !strings.Contains(err.Error(), "ACL SETUSER <user> +rpush") {
			t.Errorf("got %q, want the rule that is missing", err)
		}
		mustTry(t, b, testClaim("orders"))
	}
	if got := conn.count("probe"); got != 3 {
		t.Fatalf("probed %d times, want once, and twice for what was refused", got)
	}
	if conn.count("fair_acquire") != 0 {
		t.Fatal("a lock was tried without its rights")
	}
}

func TestPatternsOfKeys(t *testing.T) {
	for _, c := range []struct{ prefix, name, key, want string }{
		{"", "stock:42", "stock:42:holdfast-probe:X", "stock:42*"},
		{"", "stock:42", "holdfast:gone:{stock:42:holdfast-probe:X}:probe", "holdfast:*"},
		{"app:", "stock:42", "app:holdfast:token:{7}:holdfast-probe:X", "app:holdfast:*"},
		{"", "stock:42", "redisson_lock_queue:{stock:42:holdfast-probe:X}", "redisson_lock_queue:*"},
		{"app:", "{t}stock", "redisson_lock_timeout:app:{t}stock:holdfast-probe:X", "redisson_lock_timeout:*"},
		{"", "stock:42", "{stock:42:holdfast-probe:X}:timeout", "{stock:42*"},
		{"app:", "orders", "redisson_lock_token:{app:orders}", "redisson_lock_token:*"},
	} {
		l := layout.New(c.prefix, "", false)
		if got := l.KeyPattern(l.Keys(c.name), c.key); got != c.want {
			t.Errorf("%q: got %q, want %q", c.key, got, c.want)
		}
	}
}

// The rule for a channel lets the user into no other kind of channel.
func TestPatternsOfChannels(t *testing.T) {
	for _, c := range []struct {
		which      Layout
		name, want string
	}{
		{Redisson, "stock:42", "redisson_lock__channel:"},
		{Redisson, "a:{t}:b", "redisson_lock__channel:"},
		{Plain, "stock:42", "holdfast:free:"},
		{Timestamp, "a:{t}:b", "holdfast:free:"},
	} {
		l := layout.New("app:", c.which.internalName(), false)
		if got := l.ChannelPrefix(l.Keys(c.name).Channel); got != c.want {
			t.Errorf("%s, %q: got %q, want %q", c.which, c.name, got, c.want)
		}
	}
	l := layout.New("", "", false)
	for _, want := range []string{"redisson_rwlock:", "redisson_sc:"} {
		if got := l.ChannelPrefix(want + "{orders}"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
