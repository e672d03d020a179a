package redishold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

// registrations returns the registrations sent so far.
func (c *fakeConn) registrations() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Call
	for _, calls := range c.sent {
		for _, call := range calls {
			if call.Script.Name() == "register" {
				found = append(found, call)
			}
		}
	}
	return found
}

// wantRegistrations wants so many to have been sent.
func wantRegistrations(t *testing.T, conn *fakeConn, want int, when string) {
	t.Helper()
	if got := len(conn.registrations()); got != want {
		t.Fatalf("%s: got %d registrations, want %d", when, got, want)
	}
}

func mustTry(t *testing.T, b *Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	o, err := b.Try(t.Context(), c)
	if err != nil {
		t.Fatalf("Try: %v", err)
	}
	return o
}

func mustRenew(t *testing.T, b *Backend, cs ...driver.Claim) []driver.Renewal {
	t.Helper()
	renewals, err := b.Renew(t.Context(), cs)
	if err != nil || len(renewals) != len(cs) {
		t.Fatalf("Renew: got %d answers to %d claims and error %v", len(renewals), len(cs), err)
	}
	return renewals
}

func TestRegistrationRidesAlong(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, &Options{KeyPrefix: "app:"})
	mustTry(t, b, testClaim("orders"))
	last := conn.sent[len(conn.sent)-1]
	if len(last) != 2 || last[0].Script.Name() != "acquire" || last[1].Script.Name() != "register" {
		t.Fatalf("got %d calls, want acquire and register in one round trip", len(last))
	}
	if got, want := last[1].Keys[0], "app:holdfast:client:"+testUUID; got != want {
		t.Fatalf("key: got %q, want %q", got, want)
	}
	var d clients.Description
	if err := json.Unmarshal([]byte(last[1].Args[0]), &d); err != nil {
		t.Fatal(err)
	}
	if d.Note != "ci@host:4121" || d.PID == 0 || d.Program == "" {
		t.Fatalf("got %+v, want the claim's note and this process", d)
	}
	if _, err := time.Parse(time.RFC3339, d.Started); err != nil {
		t.Fatalf("started: %v", err)
	}
}

func TestRegistrationIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, nil)
		c := testClaim("orders")
		for range 90 { // one per second for less than three thirds of the shortest TTL
			mustTry(t, b, c)
			mustRenew(t, b, c, c, c)
			time.Sleep(time.Second)
		}
		wantRegistrations(t, conn, 3, "in 90 s")

		long := c
		long.TTL = time.Hour
		mustTry(t, b, long)
		mustTry(t, b, c)
		sent := conn.registrations()
		if got := sent[len(sent)-1].Args[1]; len(sent) != 4 || got != "7200000" {
			t.Fatalf("got %d registrations, the last for %s ms, want a 4th for two hours", len(sent), got)
		}
		time.Sleep(40 * time.Minute)
		mustRenew(t, b, c)
		sent = conn.registrations()
		if got := sent[len(sent)-1].Args[1]; len(sent) != 5 || got != strconv.Itoa(80*60*1000) {
			t.Fatalf("got %d registrations, the last for %s ms, want a 5th that does not cut the hour's short", len(sent), got)
		}
	})
}

func TestRegistrationOfEachClientAndLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, nil)
		short, long, other := testClaim("orders"), testClaim("orders"), testClaim("orders")
		long.TTL = time.Hour
		other = claimOf(other, "00000000-0000-4000-8000-000000000001", 1)
		for _, c := range []struct {
			claim driver.Claim
			want  int
		}{{short, 1}, {short, 1}, {other, 2}, {short, 2}, {other, 2}, {other, 2}, {short, 2}, {long, 3}, {long, 3}, {short, 3}} {
			mustTry(t, b, c.claim)
			wantRegistrations(t, conn, c.want, fmt.Sprint(c.claim.Owner, " for ", c.claim.TTL))
		}
	})
}

// In a cluster a registration lies on another node; its trouble is bounded and
// does not touch the lock's answer.
func TestRegistrationInAClusterIsApart(t *testing.T) {
	conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return ServerInfo{Cluster: true}, nil }}
	b := New(conn, nil)
	mustTry(t, b, testClaim("orders"))
	for _, calls := range conn.sent {
		if len(calls) != 1 {
			t.Fatalf("got %d calls in one round trip, want each alone", len(calls))
		}
	}
	wantRegistrations(t, conn, 1, "in a cluster")
}

func TestPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `{"note":"ci@host:4121\u001b[2J"}`
		conn := &fakeConn{answer: func(c Call) Result {
			if c.Script.Name() == "client" {
				return Result{Value: []any{text, "1763768514123"}}
			}
			return Result{}
		}}
		b := New(conn, nil)
		for range 3 {
			if got, want := b.clients.DescribeOwner(t.Context(), testUUID+":5"), "ci@host:4121[2J"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		if got := conn.count("client"); got != 1 {
			t.Fatalf("asked %d times, want once", got)
		}
		time.Sleep(knownFor)
		text = ""
		if got, want := b.clients.DescribeOwner(t.Context(), testUUID+":5"), "Redisson client 71b96ce8… thread 5"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		for owner, want := range map[string]string{
			"redlock": "redlock", "": "", "a:b:c": "a:b:c", testUUID + ":5:write": "Redisson client 71b96ce8… thread 5", "x\ny": "xy",
			strings.Repeat("é", 300): strings.Repeat("é", 100) + "…",
		} {
			if got := b.clients.DescribeOwner(t.Context(), owner); got != want {
				t.Errorf("%q: got %q, want %q", owner, got, want)
			}
		}
	})
}

// A registration that could not be read is not remembered as missing: as soon as the store
// replies, the holder is shown.
func TestAFailureIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, info := range []ServerInfo{{}, {Cluster: true}} {
			fails := true
			conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return info, nil }}
			conn.answer = func(c Call) Result {
				switch {
				case c.Script.Name() == "client" && fails:
					return Result{Err: errors.New("reset")}
				case c.Script.Name() == "client":
					return Result{Value: []any{`{"note":"ci-7"}`, "1763768514123"}}
				case c.Script.Name() == "acquire":
					return Result{Value: busyReply()}
				}
				return Result{}
			}
			b := New(conn, nil)
			const owner = "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c99:57"
			const want = "client 71b96ce8…"
			if o := mustTry(t, b, testClaim("orders")); o.Holder != want || o.RetryAfter != 20*time.Second {
				t.Errorf("cluster %v: Try: got %+v, want busy for 20s, held by %q", info.Cluster, o, want)
			}
			if got := b.clients.DescribeOwner(t.Context(), owner); got != want {
				t.Errorf("cluster %v: got %q, want %q", info.Cluster, got, want)
			}
			synctest.Wait()
			fails = false
			mustTry(t, b, testClaim("orders"))
			synctest.Wait()
			if o := mustTry(t, b, testClaim("orders")); o.Holder != "ci-7" {
				t.Errorf("cluster %v: Try: got holder %q once the store answers, want ci-7", info.Cluster, o.Holder)
			}
			if got := b.clients.DescribeOwner(t.Context(), owner); got != "ci-7" {
				t.Errorf("cluster %v: got %q once the store answers, want ci-7", info.Cluster, got)
			}
		}
	})
}

// A try that is not repeated reads the registration of the holder at once on one server, and only
// if this process has not read it. In a cluster it does not: the registration may be on another
// node.
func TestATryThatDoesNotWaitNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, info := range []ServerInfo{{}, {Cluster: true}} {
			conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return info, nil }}
			conn.answer = func(c Call) Result {
				switch c.Script.Name() {
				case "client":
					return Result{Value: []any{`{"note":"ci-7"}`, "1763768514123"}}
				case "acquire":
					return Result{Value: busyReply()}
				}
				return Result{}
			}
			b, want := New(conn, nil), "ci-7"
			if info.Cluster {
				want = "client 71b96ce8…"
			}
			once := testClaim("orders")
			once.NoQueue = true
			if o := mustTry(t, b, once); o.Holder != want {
				t.Errorf("cluster %v: got holder %q, want %q", info.Cluster, o.Holder, want)
			}
			synctest.Wait()
			for _, name := range []string{"orders", "stock"} {
				once.Name = name
				if o := mustTry(t, b, once); o.Holder != "ci-7" || conn.count("client") != 1 {
					t.Errorf("cluster %v, %s: got holder %q after %d look-ups, want ci-7 after 1", info.Cluster, name, o.Holder, conn.count("client"))
				}
			}
		}
	})
}

// A server that stops responding before the look-up delays a busy try by a second at most.
func TestASilentServerDelaysABusyTryBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &silentLookUp{fakeConn: &fakeConn{answer: replying("acquire", busyReply())}}
		once := testClaim("orders")
		once.NoQueue = true
		began := time.Now()
		if o := mustTry(t, New(conn, nil), once); o.Granted || o.Holder != "client 71b96ce8…" {
			t.Errorf("got %+v, want busy, held by a client", o)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want a second", took)
		}
	})
}

// silentLookUp does not answer look-ups of clients.
type silentLookUp struct{ *fakeConn }

func (c *silentLookUp) Do(ctx context.Context, calls ...Call) []Result {
	if calls[0].Script.Name() != "client" {
		return c.fakeConn.Do(ctx, calls...)
	}
	<-ctx.Done()
	return []Result{{Err: ctx.Err()}}
}

// A try takes one round trip, also if the holder of the lock is not known: its registration is
// read in the background, and the next try has it. A missing reply to that read delays no try.
func TestABusyTryIsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, info := range []ServerInfo{{}, {Cluster: true}} {
			for kind := range uint8(5) {
				conn := &fakeConn{server: func(context.Context) (ServerInfo, error) { return info, nil }}
				b := New(conn, nil)
				mustTry(t, b, fuzzClaim(kind, "orders")) // probed and registered
				slow := true
				conn.answer = func(c Call) Result {
					switch name := c.Script.Name(); {
					case name == "client":
						if slow {
							time.Sleep(infoTimeout)
							return Result{Err: context.DeadlineExceeded}
						}
						if strings.HasSuffix(c.Keys[0], testStem) {
							return Result{Value: []any{testUUID, "1763768514123"}}
						}
						return Result{Value: []any{`{"note":"ci-7"}`, "1763768514123"}}
					case name == "semaphore_acquire":
						return Result{Value: []any{int64(0), int64(20000), layout.PermitID(testUUID + ":57"), "1"}}
					case name == "fair_acquire":
						return Result{Value: []any{int64(0), int64(20000), testUUID + ":57", "1", fairAlive, int64(0)}}
					case strings.HasSuffix(name, "acquire"):
						return Result{Value: []any{int64(0), int64(20000), testUUID + ":57", "1"}}
					}
					return Result{}
				}
				began := time.Now()
				o := mustTry(t, b, fuzzClaim(kind, "orders"))
				if took := time.Since(began); took > 0 || o.Granted {
					t.Errorf("cluster %v, kind %d: Try took %v more than its own trip, and got holder %q", info.Cluster, kind, took, o.Holder)
				}
				synctest.Wait() // the node with the registration has not replied yet
				slow = false
				time.Sleep(infoTimeout)
				synctest.Wait()
				mustTry(t, b, fuzzClaim(kind, "orders"))
				synctest.Wait()
				if o := mustTry(t, b, fuzzClaim(kind, "orders")); o.Holder != "ci-7" {
					t.Errorf("cluster %v, kind %d: a later Try got holder %q, want ci-7", info.Cluster, kind, o.Holder)
				}
			}
		}
	})
}

// A client that wants to be anonymous is registered with its note and nothing else,
// and not at all without one.
func TestRegistrationOfTheAnonymous(t *testing.T) {
	for note, want := range map[string]string{"": "", "batch job": `{"note":"batch job"}`} {
		conn := &fakeConn{}
		c := testClaim("orders")
		c.Note, c.Anonymous = note, true
		if _, err := New(conn, nil).Try(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, call := range conn.registrations() {
			text += call.Args[0]
		}
		if text != want {
			t.Errorf("note %q: got registration %q, want %q", note, text, want)
		}
	}
}
