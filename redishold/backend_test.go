package redishold

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

func wantErrors(t *testing.T, what string, err error, want ...error) {
	t.Helper()
	for _, kind := range []error{driver.ErrGone, driver.ErrNotExecuted, driver.ErrRefused, driver.ErrMismatch} {
		if is := errors.Is(err, kind); is != slices.Contains(want, kind) {
			t.Errorf("%s: got error %v; is it %q? got %v", what, err, kind, is)
		}
	}
	if err == nil {
		t.Errorf("%s: got no error", what)
	}
}

func TestTryErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(Call) Result
		want   []error
	}{
		{"full", failing("acquire", "OOM command not allowed"), []error{driver.ErrRefused, driver.ErrNotExecuted}},
		{"no disk", failing("acquire", "MISCONF no"), []error{driver.ErrRefused, driver.ErrNotExecuted}},
		{"half-way", failing("acquire", "ERR The user executing the script can't run this command"), []error{driver.ErrRefused}},
		{"wrong type", failing("acquire", "WRONGTYPE no"), []error{driver.ErrMismatch}},
		{"other kind", replying("acquire", []any{int64(-1)}), []error{driver.ErrMismatch}},
		{"given up", replying("acquire", []any{int64(-2), "abandoned"}), []error{driver.ErrGone}},
		{"unreadable", replying("acquire", []any{int64(1)}), nil},
		{"no result", replying("acquire", nil), nil},
	} {
		if c.name == "no result" {
			c.answer = func(call Call) Result {
				if call.Script.Name() == "acquire" {
					return Result{Err: errors.New("reset")}
				}
				return Result{}
			}
		}
		o, err := New(&fakeConn{answer: c.answer}, nil).Try(t.Context(), testClaim("orders"))
		wantErrors(t, c.name, err, c.want...)
		if o != (driver.Outcome{}) {
			t.Errorf("%s: got outcome %+v beside an error", c.name, o)
		}
	}
	_, err := New(&fakeConn{answer: replying("acquire", []any{int64(-2), "forced: ops"})}, nil).Try(t.Context(), testClaim("orders"))
	var gone *driver.GoneError
	if !errors.As(err, &gone) || gone.Reason != driver.ReasonForced {
		t.Errorf("broken: got %v, want Forced", err)
	}
}

func TestNamesThatCannotBe(t *testing.T) {
	cluster := func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil }
	for _, name := range []string{"", "a{b", "{}z", "a}b{c}"} {
		conn := &fakeConn{server: cluster}
		_, err := New(conn, nil).Try(t.Context(), testClaim(name))
		wantErrors(t, "cluster, "+name, err, driver.ErrRefused, driver.ErrNotExecuted)
		if sent := conn.scripts(); len(sent) != 0 {
			t.Errorf("cluster, %q: sent %q, want nothing", name, sent)
		}
	}
	_, err := New(&fakeConn{}, nil).Try(t.Context(), testClaim(""))
	wantErrors(t, "single server, empty", err, driver.ErrRefused, driver.ErrNotExecuted)
	if o := mustTry(t, New(&fakeConn{}, nil), testClaim("a{b")); !o.Granted {
		t.Error("a single server keeps any name")
	}
}

func TestOldServers(t *testing.T) {
	for version, old := range map[string]bool{
		"5.0.14": true, "6.0.20": true, "6.2.0": false, "6.2": false, "7.0.15": false, "10.0": false, "": false, "unstable": false, "x.y": false,
	} {
		b := New(&fakeConn{server: func(context.Context) (ServerInfo, error) { return ServerInfo{Version: version}, nil }}, nil)
		_, err := b.Try(t.Context(), testClaim("orders"))
		if (err != nil) != old {
			t.Errorf("%q: got error %v", version, err)
		}
		if old {
			wantErrors(t, version, err, driver.ErrRefused, driver.ErrNotExecuted)
			if want := "redis " + version + " is too old: holdfast needs 6.2 or newer"; err.Error() != want {
				t.Errorf("%q: got %q, want %q", version, err, want)
			}
		}
	}
}

func TestProbeRunsOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{server: func(context.Context) (ServerInfo, error) {
			time.Sleep(time.Second)
			return ServerInfo{}, nil
		}}
		b := New(conn, nil)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { mustTry(t, b, testClaim("orders")) })
		}
		wg.Wait()
		if got := conn.count("probe"); got != 1 || conn.asked != 1 {
			t.Fatalf("probed %d and asked %d times, want once each", got, conn.asked)
		}
	})
}

// A waiter for another's probe is bound by its own context only.
func TestProbeDoesNotHoldUpAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		conn := &fakeConn{server: func(ctx context.Context) (ServerInfo, error) {
			if first {
				first = false
				<-ctx.Done()
				return ServerInfo{}, ctx.Err()
			}
			return ServerInfo{}, nil
		}}
		b := New(conn, nil)
		long, cancelLong := context.WithTimeout(t.Context(), time.Minute)
		defer cancelLong()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Try(long, testClaim("orders"))
			wantErrors(t, "leader", err, driver.ErrNotExecuted)
		})
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := b.Try(short, testClaim("orders"))
		wantErrors(t, "follower", err, driver.ErrNotExecuted)
		if took := time.Since(start); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %v, want the context's error after 1s", err, took)
		}
		wg.Wait()
		mustTry(t, b, testClaim("orders")) // a failure is not remembered
	})
}

func TestProbeVerdicts(t *testing.T) {
	const cannot = "ERR The user executing the script can't run this command or subcommand"
	for _, c := range []struct {
		name  string
		reply any
		want  []error // nil: passes
		words string
	}{
		{"all allowed", []any{int64(0)}, nil, ""},
		{"one missing", []any{int64(1), "HSET", cannot}, []error{driver.ErrRefused, driver.ErrNotExecuted}, "ACL SETUSER <user> +hset"},
		{"same twice", []any{int64(2), "DEL", cannot, "DEL", cannot}, []error{driver.ErrRefused, driver.ErrNotExecuted}, "SETUSER <user> +del"},
		{"renamed", []any{int64(1), "DEL", "ERR Unknown Redis command called from script"}, []error{driver.ErrRefused, driver.ErrNotExecuted}, "del"},
		{"Redis 6.2", []any{int64(1), "HSET", "-NOPERM The user executing the script can't run this command or subcommand"}, []error{driver.ErrRefused, driver.ErrNotExecuted}, "+hset"},
		{"no PUBLISH at all", []any{int64(1), "PUBLISH", "ERR Unknown Redis command called from script"}, nil, ""},
		{"a replica", []any{int64(1), "PEXPIRE", "READONLY You can't write against a read only replica."}, []error{driver.ErrNotExecuted}, "READONLY"},
		{"a full disk", []any{int64(1), "PEXPIRE", "MISCONF no"}, []error{driver.ErrRefused, driver.ErrNotExecuted}, "MISCONF"},
		{"unreadable", []any{int64(1)}, []error{driver.ErrNotExecuted}, "probe"},
	} {
		conn := &fakeConn{answer: replying("probe", c.reply)}
		b := New(conn, nil)
		for range 2 {
			_, err := b.Try(t.Context(), testClaim("orders"))
			if c.want == nil {
				if err != nil {
					t.Errorf("%s: got error %v", c.name, err)
				}
				continue
			}
			wantErrors(t, c.name, err, c.want...)
			if !strings.Contains(err.Error(), c.words) || strings.Count(err.Error(), "+del") > 1 {
				t.Errorf("%s: got %q, want %q in it", c.name, err, c.words)
			}
		}
		want := 1
		if c.want != nil {
			want = 2
			if conn.count("acquire") != 0 {
				t.Errorf("%s: a lock was tried", c.name)
			}
		}
		if got := conn.count("probe"); got != want {
			t.Errorf("%s: probed %d times, want %d", c.name, got, want)
		}
	}
}

// Who lacks several rights learns of all of them at once: the probe tries what is
// needed for the kind and for all kinds, and is run as it is if not by its digest.
func TestProbeNamesAllThatIsMissing(t *testing.T) {
	const cannot = "ERR The user executing the script can't run this command or subcommand"
	noRight := func(command string) error {
		return &ReplyError{Text: "NOPERM this user has no permissions to run the '" + command + "' command"}
	}
	inside := func(c Call) Result {
		if c.Script.Name() != "probe" || !slices.Contains(c.Args, "HKEYS") || !slices.Contains(c.Args, "LPOS") {
			return Result{}
		}
		return Result{Value: []any{int64(3), "HKEYS", cannot, "LPOS", cannot, "HKEYS", cannot}}
	}
	for _, test := range []struct {
		name   string
		answer func(Call) Result
		want   string
	}{
		{"in scripts", inside, "ACL SETUSER <user> +hkeys +lpos"},
		{"no digests", func(c Call) Result {
			if !c.Source {
				return Result{Err: noRight("evalsha")}
			}
			return inside(c)
		}, "ACL SETUSER <user> +evalsha +hkeys +lpos"},
		{"no scripts", func(c Call) Result {
			if c.Source {
				return Result{Err: noRight("eval")}
			}
			return Result{Err: noRight("evalsha")}
		}, "ACL SETUSER <user> +evalsha +eval"},
		{"no digests, and the script breaks off", func(c Call) Result {
			if !c.Source {
				return Result{Err: noRight("evalsha")}
			}
			return Result{Err: &ReplyError{Text: cannot}}
		}, "ACL SETUSER <user> +evalsha"},
	} {
		c := testClaim("orders")
		c.Fair = true
		_, err := New(&fakeConn{answer: test.answer}, nil).Try(t.Context(), c)
		wantErrors(t, test.name, err, driver.ErrRefused, driver.ErrNotExecuted)
		if _, rules, _ := strings.Cut(err.Error(), "grant it with: "); rules != test.want {
			t.Errorf("%s: got %q, want %q", test.name, err, test.want)
		}
	}
}

func TestProbeStaysOffTheRealKeys(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, &Options{KeyPrefix: "app:"})
	mustTry(t, b, testClaim("{t}orders"))
	probe, acquire := conn.sent[0][0], conn.sent[1][0]
	for _, key := range probe.Keys {
		if slices.Contains(acquire.Keys, key) || !strings.HasPrefix(key, "app:") || layout.SlotOf(key) != layout.SlotOf(acquire.Keys[0]) {
			t.Errorf("scratch key %q: want another than %q, with the prefix, in the same slot", key, acquire.Keys)
		}
	}
	if real := b.layout.Keys("{t}orders").Channel; probe.Args[0] == real || !strings.HasPrefix(probe.Args[0], "redisson_lock__channel:") {
		t.Errorf("scratch channel %q", probe.Args[0])
	}
}

func TestRenewAnswersEachClaim(t *testing.T) {
	conn := &fakeConn{answer: func(c Call) Result {
		if c.Script.Name() != "renew" {
			return Result{}
		}
		switch c.Keys[0] {
		case "lost":
			return Result{Value: int64(0)}
		case "text":
			return Result{Err: &ReplyError{Text: "WRONGTYPE no"}}
		case "cut":
			return Result{Err: context.DeadlineExceeded}
		case "odd":
			return Result{Value: "x"}
		}
		return Result{}
	}}
	b := New(conn, nil)
	var cs []driver.Claim
	for i := range renewChunk + 10 {
		cs = append(cs, testClaim("held"+strconv.Itoa(i)))
	}
	for i, name := range []string{"lost", "text", "cut", "odd"} {
		cs[renewChunk+i].Name = name
	}
	cs[renewChunk+2].Count = 2 // it travels by itself, so that the others have an answer
	renewals := mustRenew(t, b, cs...)
	for i, r := range renewals {
		switch what := cs[i].Name; what {
		case "lost", "text":
			wantErrors(t, what, r.Err, driver.ErrGone)
		case "cut", "odd":
			wantErrors(t, what, r.Err)
		default:
			if r.Err != nil || r.ValidFor != cs[i].TTL {
				t.Fatalf("%s: got %+v, want renewed for %v", what, r, cs[i].TTL)
			}
		}
	}
	for _, calls := range conn.sent {
		if len(calls) > renewChunk+1 {
			t.Fatalf("got %d calls in one round trip", len(calls))
		}
	}
}

func TestExplanationsAreBounded(t *testing.T) {
	conn := &fakeConn{answer: replying("renew", int64(0))}
	b := New(conn, nil)
	cs := make([]driver.Claim, 200)
	for i := range cs {
		cs[i] = testClaim(strconv.Itoa(i))
	}
	for _, r := range mustRenew(t, b, cs...) {
		wantErrors(t, "lost", r.Err, driver.ErrGone)
	}
	if got := conn.count("explain"); got != maxExplained {
		t.Fatalf("looked into %d losses, want %d", got, maxExplained)
	}
	conn.answer = func(c Call) Result {
		if c.Script.Name() == "explain" {
			return Result{Err: errors.New("reset")}
		}
		return replying("renew", int64(0))(c)
	}
	wantErrors(t, "lost", mustRenew(t, b, cs[0])[0].Err, driver.ErrGone)
}

func TestLossExplained(t *testing.T) {
	const owner = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
	before := ServerInfo{RunID: "a", EvictionPolicy: "allkeys-lru", EvictedKeys: 5}
	for _, c := range []struct {
		name   string
		after  ServerInfo
		reply  []any
		reason driver.Reason
		detail string
	}{
		{"deleted", before, []any{int64(0), "", "", int64(1)}, driver.ReasonDeleted, "the key is gone from the server"},
		{"flushed", before, []any{int64(0), "", "", int64(0)}, driver.ReasonDeleted, "flushed or restarted empty"},
		{"restarted", ServerInfo{RunID: "b"}, []any{int64(0), "", "", int64(1)}, driver.ReasonDeleted, "restarted or replaced"},
		{"evicted", ServerInfo{RunID: "a", EvictionPolicy: "allkeys-lru", EvictedKeys: 6}, []any{int64(0), "", "", int64(1)}, driver.ReasonEvicted, "free memory"},
		{"no eviction policy", ServerInfo{RunID: "a", EvictionPolicy: "noeviction", EvictedKeys: 6}, []any{int64(0), "", "", int64(1)}, driver.ReasonDeleted, "the key is gone"},
		{"other cluster node", ServerInfo{RunID: "b", Cluster: true}, []any{int64(0), "", "", int64(1)}, driver.ReasonDeleted, "the key is gone"},
		{"taken", before, []any{int64(1), owner, "", int64(1)}, driver.ReasonNotOwner, "now held by Redisson client 71b96ce8… thread 57"},
		{"no lock any more", before, []any{int64(1), "", "", int64(1)}, driver.ReasonDeleted, "the key is gone"},
		{"forced", before, []any{int64(1), owner, "forced: ops", int64(1)}, driver.ReasonForced, "ops"},
		{"given up", before, []any{int64(0), "", "abandoned", int64(1)}, driver.ReasonDeleted, "given up"},
	} {
		now := before
		now.Cluster = c.after.Cluster
		conn := &fakeConn{
			server: func(context.Context) (ServerInfo, error) { return now, nil },
			answer: func(call Call) Result {
				switch call.Script.Name() {
				case "renew":
					return Result{Value: int64(0)}
				case "release":
					return Result{Value: int64(0)}
				case "explain":
					return Result{Value: c.reply}
				}
				return Result{}
			},
		}
		b := New(conn, nil)
		mustTry(t, b, testClaim("orders"))
		now = c.after
		var gone *driver.GoneError
		if err := mustRenew(t, b, testClaim("orders"))[0].Err; !errors.As(err, &gone) || gone.Reason != c.reason || !strings.Contains(gone.Detail, c.detail) {
			t.Errorf("%s: Renew: got %+v, want %s: %s", c.name, gone, c.reason, c.detail)
		}
		wantErrors(t, c.name+": Release", b.Release(t.Context(), testClaim("orders")), driver.ErrGone)
	}
}

// One eviction or restart removes many locks, and only the first ServerInfo after it differs
// from the one before.
func TestChangeExplainsOtherLossesForAWhile(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  ServerInfo
		reason driver.Reason
		detail string
	}{
		{name: "evicted", after: ServerInfo{RunID: "a", EvictionPolicy: "allkeys-lru", EvictedKeys: 6}, reason: driver.ReasonEvicted, detail: "free memory"},
		{name: "restarted", after: ServerInfo{RunID: "b", EvictionPolicy: "allkeys-lru"}, reason: driver.ReasonDeleted, detail: "restarted or replaced"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := ServerInfo{RunID: "a", EvictionPolicy: "allkeys-lru", EvictedKeys: 5}
				var silent error
				conn := &fakeConn{
					server: func(context.Context) (ServerInfo, error) { return now, silent },
					answer: func(call Call) Result {
						switch call.Script.Name() {
						case "renew":
							return Result{Value: int64(0)}
						case "explain":
							return Result{Value: []any{int64(0), "", "", int64(1)}}
						}
						return granting(call)
					},
				}
				b := New(conn, nil)
				mustTry(t, b, testClaim("orders"))
				lose := func(when, name string, reason driver.Reason, detail string) {
					t.Helper()
					var gone *driver.GoneError
					if err := mustRenew(t, b, testClaim(name))[0].Err; !errors.As(err, &gone) || gone.Reason != reason || !strings.Contains(gone.Detail, detail) {
						t.Errorf("%s: Renew of %s: got %+v, want %s: %s", when, name, gone, reason, detail)
					}
				}
				lose("before the change", "orders", driver.ReasonDeleted, "the key is gone")
				now = c.after
				lose("at once", "orders", c.reason, c.detail)
				lose("at once", "stock", c.reason, c.detail)
				time.Sleep(keyLossFor)
				silent = errors.New("no answer")
				lose("after a while, from a server that does not answer", "orders", c.reason, c.detail)
				time.Sleep(time.Second)
				silent = nil
				lose("long after", "orders", driver.ReasonDeleted, "the key is gone")
			})
		})
	}
}

func TestReleaseOfAnIndeterminateClaim(t *testing.T) {
	for _, c := range []struct {
		text string
		sent []string
		want []error
	}{
		{"TRYAGAIN Multiple keys request during rehashing of slot", []string{"abandon", "release"}, nil},
		{"CROSSSLOT Keys in request don't hash to the same slot", []string{"abandon", "release"}, nil},
		{"OOM command not allowed", []string{"abandon"}, nil},
		{"MISCONF no", []string{"abandon"}, nil},
		{"LOADING no", []string{"abandon"}, []error{driver.ErrNotExecuted}},
		{"ERR The user executing the script can't run this command", []string{"abandon"}, []error{driver.ErrRefused}},
	} {
		conn := &fakeConn{answer: failing("abandon", c.text)}
		claim := testClaim("orders")
		claim.Indeterminate = true
		wantErrors(t, c.text, New(conn, nil).Release(t.Context(), claim), c.want...)
		if got := conn.scripts(); !slices.Equal(got, c.sent) {
			t.Errorf("%s: sent %q, want %q", c.text, got, c.sent)
		}
	}
}

func TestMarkOutlivesTheClaim(t *testing.T) {
	for ttl, want := range map[time.Duration]string{time.Second: "10000", time.Minute: "60000"} {
		conn := &fakeConn{}
		c := testClaim("orders")
		c.Indeterminate, c.TTL = true, ttl
		if err := New(conn, nil).Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := conn.sent[0][0].Args[1]; got != want {
			t.Errorf("TTL %v: the mark lasts %s ms, want %s", ttl, got, want)
		}
	}
}

func TestReleaseThatCouldNotPublish(t *testing.T) {
	var logged bytes.Buffer
	conn := &fakeConn{answer: replying("release", int64(-1))}
	b := New(conn, &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for range 3 {
		if err := b.Release(t.Context(), testClaim("orders")); err != nil {
			t.Fatalf("got %v, want released", err)
		}
	}
	if got := strings.Count(logged.String(), "refuses to publish"); got != 1 {
		t.Fatalf("got %d warnings, want 1: %s", got, logged.String())
	}
}

func TestEvictionPolicyIsWarnedOfOnce(t *testing.T) {
	for policy, want := range map[string]int{"allkeys-lru": 1, "volatile-ttl": 1, "noeviction": 0, "": 0} {
		var logged bytes.Buffer
		b := New(&fakeConn{server: func(context.Context) (ServerInfo, error) { return ServerInfo{EvictionPolicy: policy}, nil }},
			&Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		mustTry(t, b, testClaim("orders"))
		mustTry(t, b, testClaim("orders"))
		if got := strings.Count(logged.String(), "evict"); (got > 0) != (want > 0) || strings.Count(logged.String(), "\n") != want {
			t.Errorf("%q: got %q, want %d warnings", policy, logged.String(), want)
		}
	}
}

// advised is a Conn that would have its client set up otherwise.
type advised struct{ *fakeConn }

func (advised) Advice() []Advice {
	return []Advice{{Setting: "FailoverOptions.MaxRetries", Is: "3", Better: "-1", Why: "Because."}}
}

func TestSettingsOfTheClientAreWarnedOfOnce(t *testing.T) {
	var logged bytes.Buffer
	b := New(advised{&fakeConn{}}, &Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	mustTry(t, b, testClaim("orders"))
	mustTry(t, b, testClaim("orders"))
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "setting=FailoverOptions.MaxRetries is=3 better=-1 why=Because.") {
		t.Errorf("got %q, want one line that names the setting", got)
	}
}
