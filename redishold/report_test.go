package redishold

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// reportCalls returns the calls of reports sent so far, as "script key" and, for
// one that forgets, "-".
func (c *fakeConn) reportCalls() (calls []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sent := range c.sent {
		for _, call := range sent {
			if !strings.HasPrefix(call.Script.Name(), "report") {
				continue
			}
			text := call.Script.Name() + " " + call.Keys[0]
			if call.Args[1] == "" {
				text += " -"
			}
			calls = append(calls, text)
		}
	}
	return calls
}

func testReport(tokens ...uint64) driver.Report {
	r := driver.Report{Client: testUUID, Note: "ci", TTL: 30 * time.Second}
	for _, token := range tokens {
		r.Holds = append(r.Holds, driver.ReportedHold{
			Name: "orders", Owner: testUUID + ":5", Token: token, HeldFor: 3 * time.Second,
		})
	}
	return r
}

func waitingFor(names ...string) driver.Report {
	r := driver.Report{Client: testUUID, TTL: 30 * time.Second}
	for _, name := range names {
		r.Waits = append(r.Waits, driver.ReportedWait{Name: name, Waited: 3 * time.Second, Count: 2})
	}
	return r
}

func mustReport(t *testing.T, b *Backend, r driver.Report) {
	t.Helper()
	if err := b.Report(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// What is held is written when it changes, and again before the registration
// ends, so that no try writes it without.
func TestReportIsWrittenWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, &Options{KeyPrefix: "app:"})
		mustTry(t, b, testClaim("orders"))
		for range 300 { // ten minutes
			mustTry(t, b, testClaim("orders"))
			mustReport(t, b, testReport(7))
			time.Sleep(2 * time.Second)
		}
		mustReport(t, b, testReport(7))
		calls := conn.reportCalls()
		if n := len(calls); n < 20 || n > 31 || calls[0] != "report app:holdfast:client:"+testUUID {
			t.Fatalf("got %d reports in ten minutes, the first %q, want one every 20 s or so", n, calls[0])
		}
		if n := len(conn.registrations()); n != 1 {
			t.Errorf("got %d registrations without holds, want the first alone", n)
		}
		mustReport(t, b, testReport(8))
		mustReport(t, b, testReport())
		mustReport(t, b, testReport())
		if n := len(conn.reportCalls()); n != len(calls)+2 {
			t.Errorf("got %d reports, want one of the new token and one of nothing", n-len(calls))
		}
	})
}

func TestReportSaysWhatIsHeld(t *testing.T) {
	conn := &fakeConn{}
	r := testReport(7)
	r.Holds[0].Name, r.Holds[0].Mode, r.MoreHolds = strings.Repeat("x", 9999), driver.Shared, 3
	mustReport(t, New(conn, nil), r)
	last := conn.sent[len(conn.sent)-1]
	if len(last) != 1 || len(last[0].Args[0]) > 1000 || last[0].Args[1] != "90000" {
		t.Fatalf("got %+v, want a short call for 90 s", last)
	}
	type held struct {
		Name, Owner, Kind, Mode string
		Token                   uint64
		Held                    int64 `json:"held_ms"`
	}
	var s struct {
		clients.Description
		Holds []held
		More  int
	}
	if err := json.Unmarshal([]byte(last[0].Args[0]), &s); err != nil {
		t.Fatal(err)
	}
	want := held{Name: s.Holds[0].Name, Owner: testUUID + ":5", Kind: "read-write", Mode: "shared", Token: 7, Held: 3000}
	if s.Note != "ci" || s.PID == 0 || s.More != 3 || len(s.Holds) != 1 || s.Holds[0] != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// A try that has to register for longer writes no holds: the next report does.
func TestReportAfterARegistration(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, nil)
	mustReport(t, b, testReport(7))
	long := testClaim("orders")
	long.TTL = time.Hour
	mustTry(t, b, long)
	mustReport(t, b, testReport(7))
	if got := len(conn.reportCalls()); got != 2 || len(conn.registrations()) != 1 {
		t.Fatalf("got %d reports, want it repeated", got)
	}
	if ttl := conn.sent[len(conn.sent)-1][0].Args[1]; len(ttl) < 7 {
		t.Errorf("written for %s ms: the long registration is cut short", ttl)
	}
}

func TestReportIsRepeatedAfterAFailure(t *testing.T) {
	conn := &fakeConn{answer: failing("report", "NOPERM no")}
	b := New(conn, nil)
	for range 2 {
		if err := b.Report(t.Context(), testReport(7)); err == nil {
			t.Error("no error")
		}
	}
	if n := len(conn.reportCalls()); n != 2 {
		t.Errorf("got %d attempts, want 2", n)
	}
}

// A waiter is noted with each report, and forgotten once.
func TestReportOfWaits(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, &Options{KeyPrefix: "app:"})
	for _, r := range []driver.Report{waitingFor("a", "b"), waitingFor("b", "b"), waitingFor(), waitingFor()} {
		mustReport(t, b, r)
	}
	const key = "report_wait app:holdfast:waiting:{app:"
	want := []string{key + "a}", key + "b}", key + "a} -", key + "b}", key + "b} -"}
	if got := conn.reportCalls(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The key of waiters lies in the slot of the lock, and what has no place in
// a cluster is left out.
func TestReportOfWaitsInACluster(t *testing.T) {
	for prefix, names := range map[string][]string{"": {"a", "{t}:a", "a}b", "{}"}, "app:": {"a", "x{t}"}, "{app}:": {"a", "b{c}"}} {
		conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil }}
		b := New(conn, &Options{KeyPrefix: prefix})
		mustReport(t, b, waitingFor(names...))
		for _, name := range names {
			k := b.layout.ComputeKeys(name)
			key := b.layout.Waiters(k)
			sent := slices.Contains(conn.reportCalls(), "report_wait "+key)
			if layout.CheckSlots(k) != nil {
				if sent {
					t.Errorf("%q is reported", k.Lock)
				}
			} else if !sent || layout.SlotOf(key) != layout.SlotOf(k.Lock) {
				t.Errorf("%q: sent %v to %q, in slot %d, not %d", k.Lock, sent, key, layout.SlotOf(key), layout.SlotOf(k.Lock))
			}
			if !b.layout.IsAuxiliary(key) {
				t.Errorf("a List takes %q for a lock", key)
			}
		}
	}
}

// statements answers client with a registration that was written so long ago.
func statements(ago time.Duration, token uint64) func(Call) Result {
	const now = 1763768514123
	return func(c Call) Result {
		return Result{Value: []any{fmt.Sprintf(
			`{"at":%d,"note":"ci","pid":7,"program":"p","host":"h","holds":[{"name":"orders","owner":"%s:1","token":%d,"held_ms":3000}]}`,
			now-ago.Milliseconds(), testUUID, token,
		), fmt.Sprint(now)}}
	}
}

// Look reports since when, by the clock of the server alone, and asks again for a
// hold that its client did not name.
func TestLookTellsSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := testUUID + ":1"
		answers := map[string]func(Call) Result{
			"list_redisson": func(Call) Result {
				return Result{Value: []any{[]any{"hash", ints(9), []any{owner, "1"}, ints(1), []any{ints(0)}, ints(0), ints(-1)}}}
			},
			"client": statements(10*time.Second, 42),
		}
		conn := &fakeConn{answer: answering(answers)}
		b := New(conn, nil)
		check := func(token uint64, since time.Duration, asked int) {
			t.Helper()
			records, err := b.Get(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			if h := records[0].Holds[0]; h.Token != token || h.HeldFor != since || h.Client.PID != 7 || conn.count("client") != asked {
				t.Errorf("got token %d since %v of %+v, asked %d times", h.Token, h.HeldFor, h.Client, conn.count("client"))
			}
		}
		check(42, 13*time.Second, 1)
		time.Sleep(5 * time.Second)
		check(42, 18*time.Second, 1)
		owner = testUUID + ":2"
		check(0, 0, 2)
		check(0, 0, 2)
		time.Sleep(newHoldFor)
		check(0, 0, 3)
		owner = testUUID + ":1"
		check(42, 13*time.Second, 3)
	})
}

// Numbers that others wrote may be anything.
func TestAge(t *testing.T) {
	const big, year = int64(1) << 62, 365 * 24 * time.Hour
	for _, c := range []struct {
		now, then, ms int64
		least, most   time.Duration
	}{
		{1000, 400, 50, 650 * time.Millisecond, 650 * time.Millisecond},
		{0, 1000, 5, 0, 0},
		{big, -big, big, 99 * year, 101 * year},
		{-big, big, -big, 0, 0},
	} {
		if got := clients.Age(c.now, c.then, c.ms); got < c.least || got > c.most {
			t.Errorf("Age(%d, %d, %d): got %v", c.now, c.then, c.ms, got)
		}
	}
}

// A busy try returns how long the lock has been held, if the holder has reported it.
func TestBusyHasHeldFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := testUUID + ":1"
		conn := &fakeConn{answer: func(c Call) Result {
			switch c.Script.Name() {
			case "client":
				return statements(10*time.Second, 42)(c)
			case "acquire":
				return Result{Value: []any{int64(0), int64(1500), owner, "1"}}
			}
			return Result{}
		}}
		b := New(conn, nil)
		once := testClaim("orders")
		once.NoQueue = true
		if o := mustTry(t, b, once); o.Holder != "ci" || o.HeldFor != 13*time.Second {
			t.Errorf("got %+v, want ci for 13s", o)
		}
		owner = testUUID + ":2"
		if o := mustTry(t, b, once); o.Holder != "ci" || o.HeldFor != 0 {
			t.Errorf("got %+v, want ci for nobody knows how long", o)
		}
	})
}

// What clients say of their waits is shown if it is fresh and makes sense.
func TestDetailTellsWhoWaits(t *testing.T) {
	const now = 1763768514123
	id := func(n int) string { return fmt.Sprintf("%08d-2746-4f0e-9d4a-0f6f0b7f2c11", n) }
	said := func(ago, waited, count int64, mode string) string {
		return fmt.Sprintf(`{"at":%d,"note":"n\u001b","pid":7,"program":"p","host":"h","mode":%q,"waited_ms":%d,"count":%d}`, now-ago, mode, waited, count)
	}
	conn := &fakeConn{answer: answering(map[string]func(Call) Result{
		"list_redisson": listAll, "client": unregistered,
		"list_keys": func(c Call) Result {
			return Result{Value: slices.Repeat([]any{[]any{"none", ints(-2), ints(0), ""}}, len(c.Keys))}
		},
		"list_waits": func(c Call) Result {
			if c.Keys[0] != "holdfast:waiting:{orders}" {
				t.Errorf("looked at %q", c.Keys[0])
			}
			return Result{Value: []any{
				fmt.Sprint(now), id(1), said(1000, 2000, 4, "exclusive"), id(2), said(11_000, 50_000, 1, "exclusive"),
				id(3), said(0, 9000, -3, "shared"), "x", said(0, 1, 1, ""), id(4), "no JSON",
			}}
		},
	})}
	d, err := New(conn, nil).Describe(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	client := func(n int) admin.Client {
		return admin.Client{ID: id(n), Library: "holdfast", Program: "p", Host: "h", PID: 7, Note: "n"}
	}
	want := []admin.ClientWait{
		{Client: client(3), Mode: driver.Shared, Waited: 9 * time.Second, Count: 1},
		{Client: client(1), Mode: driver.Exclusive, Waited: 3 * time.Second, Count: 4},
	}
	if !slices.Equal(d.Waits, want) {
		t.Errorf("got %+v, want %+v", d.Waits, want)
	}
}
