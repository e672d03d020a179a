package redishold

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

const testStem = "71b96ce827464f0e9d4a" // of testUUID

// permitClaim is a claim for one of two permits.
func permitClaim(seq uint64) driver.Claim {
	c := claimOf(testClaim("pool"), testUUID, seq)
	c.Mode, c.Permits = driver.Permit, 2
	return c
}

// The id of a permit has the client and the number of its owner, or a hash of an owner that has
// more. No two owners have the same id.
func TestPermitIDs(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ owner, want string }{
		{testUUID + ":1", testStem + "000000000001"},
		{testUUID + ":258", testStem + "000000000102"},
		{testUUID + ":281474976710655", testStem + "ffffffffffff"},
		{"00000000-0000-4000-8000-000000000001:7", "00000000000040008000000000000007"},
		{testUUID + ":281474976710656", ""},
		{testUUID + ":0", ""},
		{testUUID + ":01", ""},
		{testUUID + ":-1", ""},
		{testUUID + ":1.a", ""}, // of a store that wraps this one
		{testUUID + ":", ""},
		{testUUID, ""},
		{"71b96ce8-2746-1f0e-9d4a-0f6f0b7f2c11:1", ""}, // another version
		{"71b96ce8-2746-4f0e-cd4a-0f6f0b7f2c11:1", ""}, // another variant
		{"71B96CE8-2746-4f0e-9d4a-0f6f0b7f2c11:1", ""},
		{"a:1", ""},
		{"", ""},
	} {
		id := layout.PermitID(c.owner)
		if len(id) != 16 || id != layout.PermitID(c.owner) {
			t.Errorf("%q: got %x, want 16 bytes, always the same", c.owner, id)
		}
		if other, taken := seen[id]; taken {
			t.Errorf("%q and %q share the id %x", c.owner, other, id)
		}
		seen[id] = c.owner
		want := c.want
		if sum := sha256.Sum256([]byte(c.owner)); want == "" {
			want = hex.EncodeToString(sum[:16])
		}
		if got := hex.EncodeToString([]byte(id)); got != want {
			t.Errorf("%q: got %s, want %s", c.owner, got, want)
		}
		stem, number, ok := layout.CutPermit(id)
		uuid, owned, _ := layout.CutOwner(c.owner)
		switch {
		case c.want != "" && (!ok || number != owned || stem != layout.StemOf(uuid)):
			t.Errorf("%q: read back as %q, %q, %v", c.owner, stem, number, ok)
		case c.want == "" && layout.Fits(stem, uuid):
			t.Errorf("%q: hashed, and read back as the client's", c.owner)
		}
	}
	for _, id := range []string{
		"", "short", "0123456789abcdef", "012345\x5a7\x8b9abcdef", "012345\x4a7\xcb9abcdef", "012345\x4a7\x8b9abcdefg",
	} {
		if stem, number, ok := layout.CutPermit(id); ok {
			t.Errorf("%q: got %q and %q, want nobody", id, stem, number)
		}
	}
}

// A registration of a stem that is not a UUID with that stem is ignored.
func TestStems(t *testing.T) {
	for text, want := range map[string]bool{
		testUUID: true, "": false, "x": false, `{"note":"x"}`: false,
		"00000000-0000-4000-8000-000000000001": false, testUUID + " ": false,
		"71b96ce8-2746-4f0e-9d4a-ffffffffffff": true, // the stem is all that is known
	} {
		if got := layout.Fits(testStem, text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// Whose many permits are is asked for in few calls, and in a cluster with one for
// each client; the answers are kept for a while.
func TestManyPermitsAreIdentified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cluster := range []bool{false, true} {
			const clients = 300
			conn := &fakeConn{answer: func(c Call) Result {
				var found []any
				for _, key := range c.Keys {
					stem := strings.TrimPrefix(key, "holdfast:client:")
					found = append(found, strings.Join([]string{stem[:8], stem[8:12], stem[12:16], stem[16:], "000000000001"}, "-"))
				}
				return Result{Value: append(found, "1763768514123")}
			}}
			b := New(conn, nil)
			look := func() {
				t.Helper()
				var records []admin.Record
				for i := range 2 * clients {
					owner := fmt.Sprintf("%08x-0000-4000-8000-000000000001:%d", i%clients, i+1)
					records = append(records, admin.Record{Holds: []admin.Hold{{Holder: admin.Holder{Owner: hex.EncodeToString([]byte(layout.PermitID(owner)))}, Mode: driver.Permit}}})
				}
				b.clients.Identify(t.Context(), cluster, records)
				for i, r := range records {
					if got, want := r.Holds[0].Owner, fmt.Sprintf("%08x-0000-4000-8000-000000000001:%d", i%clients, i+1); got != want {
						t.Fatalf("got %s, want %s", got, want)
					}
				}
			}
			look()
			look()
			want := 2
			if cluster {
				want = clients
			}
			if got := conn.count("client"); got != want || len(conn.sent) != 1 {
				t.Errorf("in a cluster: %v: asked with %d calls in %d trips, want %d in 1", cluster, got, len(conn.sent), want)
			}
			time.Sleep(knownFor)
			look()
			if got := conn.count("client"); got != 2*want {
				t.Errorf("in a cluster: %v: asked with %d calls after %v, want as many again", cluster, got, knownFor)
			}
		}
	})
}

// A client that takes permits is registered under its stem too: in the same round
// trip as before, as seldom, and not for other locks.
func TestHolderRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &fakeConn{}
		b := New(conn, &Options{KeyPrefix: "app:"})
		mustTry(t, b, testClaim("orders"))
		wantKeys := func(want ...string) {
			t.Helper()
			var got []string
			for _, call := range conn.registrations() {
				got = append(got, call.Keys[0])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("registered: got %q, want %q", got, want)
			}
		}
		client, stem := "app:holdfast:client:"+testUUID, "app:holdfast:client:"+testStem
		wantKeys(client)

		mustTry(t, b, permitClaim(2))
		wantKeys(client, stem)
		last := conn.sent[len(conn.sent)-1]
		if len(last) != 2 || last[0].Script.Name() != "semaphore_acquire" || !slices.Equal(last[1].Args, []string{testUUID, "90000"}) {
			t.Fatalf("got %+v, want the stem's registration with the try", last)
		}
		trips := len(conn.sent)
		for i := range 20 {
			mustTry(t, b, permitClaim(3))
			mustTry(t, b, testClaim("orders"))
			mustRenew(t, b, permitClaim(2), testClaim("orders"))
			if got := len(conn.sent) - trips; got != 3*(i+1) {
				t.Fatalf("got %d round trips for %d calls", got, 3*(i+1))
			}
			time.Sleep(time.Second)
		}
		wantKeys(client, stem)
		time.Sleep(10 * time.Second)
		mustRenew(t, b, testClaim("orders"))
		wantKeys(client, stem, client)
		mustRenew(t, b, permitClaim(2))
		wantKeys(client, stem, client, stem)

		hashed := claimOf(permitClaim(4), "me", 4) // no UUID: there is no stem
		mustTry(t, b, hashed)
		mustTry(t, b, hashed)
		wantKeys(client, stem, client, stem, "app:holdfast:client:me")
	})
}

// A registration that failed costs nothing, and is made again later; so is one that the
// server may have lost with a lock. A permit has two.
func TestRegistrationAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for each, c := range map[int]driver.Claim{1: testClaim("orders"), 2: permitClaim(1)} {
			conn := &fakeConn{answer: failing("register", "NOPERM no")}
			b := New(conn, nil)
			for range 3 {
				if o := mustTry(t, b, c); !o.Granted {
					t.Fatal("not granted")
				}
			}
			wantRegistrations(t, conn, each, "at once")
			time.Sleep(2 * time.Second)
			conn.answer = nil
			mustTry(t, b, c)
			mustTry(t, b, c)
			wantRegistrations(t, conn, 2*each, "after a failure")
			conn.answer = func(call Call) Result {
				if strings.HasSuffix(call.Script.Name(), "renew") {
					return Result{Value: int64(0)}
				}
				return Result{}
			}
			if r := mustRenew(t, b, c); !errors.Is(r[0].Err, driver.ErrGone) {
				t.Fatalf("got %v, want a loss", r[0].Err)
			}
			mustTry(t, b, c)
			wantRegistrations(t, conn, 3*each, "after a loss")
		}
	})
}

// registered returns replies with the registrations of one client and its stem, and of no other.
func registered(answers map[string]func(Call) Result) func(Call) Result {
	read := func(key string) any {
		switch key {
		case "holdfast:client:" + testStem, "holdfast:client:00000000000040008000": // the other one is a lie
			return testUUID
		case "holdfast:client:" + testUUID:
			return `{"note":"nightly\u001b","host":"h","pid":7}`
		default:
			return ""
		}
	}
	answers["client"] = func(c Call) Result {
		var found []any
		for _, key := range c.Keys {
			found = append(found, read(key))
		}
		return Result{Value: append(found, "1763768514123")}
	}
	return answering(answers)
}

// A busy semaphore names the holder of the permit that ends first. A claim that does not wait
// reads its registrations once, and knows them then.
func TestBusyPermitNamesAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id := layout.PermitID(testUUID + ":5")
		conn := &fakeConn{answer: registered(map[string]func(Call) Result{
			"semaphore_acquire": func(Call) Result { return Result{Value: []any{int64(0), int64(20000), id, "1"}} },
		})}
		b := New(conn, nil)
		atOnce := permitClaim(9)
		atOnce.NoQueue = true
		for range 5 {
			if out := mustTry(t, b, atOnce); out.Holder != "nightly" || out.RetryAfter != 20*time.Second {
				t.Fatalf("got %+v, want busy, held by nightly", out)
			}
		}
		if got := conn.count("client"); got != 2 {
			t.Errorf("asked %d times, want twice: for the client of the permit, and for what it says", got)
		}
		for _, other := range []string{"0123456789abcdef", "", layout.PermitID("a:1"), layout.PermitID("00000000-0000-4000-8000-000000000001:7")} {
			id = other
			for range 3 {
				if out := mustTry(t, b, permitClaim(9)); out.Holder != "" {
					t.Fatalf("%x: got %+v, want nobody known", other, out)
				}
				synctest.Wait()
			}
		}
		if got := conn.count("client"); got != 3 {
			t.Errorf("asked %d times, want once more: most ids of others show that they are", got)
		}
	})
}

func permitsOut(ids ...string) []any {
	out := []any{}
	for _, id := range ids {
		out = append(out, id, ints(5000))
	}
	return out
}

// What is not registered costs no more than the name.
func TestPermitsWithoutAnAnswer(t *testing.T) {
	conn := &fakeConn{answer: answering(map[string]func(Call) Result{
		"list_redisson": func(Call) Result {
			return Result{Value: []any{[]any{"number", ints(-1), "0", ints(1), ints(0), permitsOut(layout.PermitID(testUUID + ":5")), ints(0), ints(0)}}}
		},
		"client": func(Call) Result { return Result{Err: errors.New("reset")} },
	})}
	holders, err := holdersOf(t.Context(), New(conn, nil), "pool")
	if err != nil || len(holders) != 1 || holders[0].Owner != testStem+"000000000005" || holders[0].Note != "a permit" {
		t.Errorf("got %+v and error %v, want a permit without a name", holders, err)
	}
}

// Break ends the permit that was shown. A holder that is known is left the reason
// and reported; so it is if it was shown by its id, before it was known.
func TestBreakPermit(t *testing.T) {
	mine, java := layout.PermitID(testUUID+":5"), "0123456789abcdef"
	for _, c := range []struct{ shown, id, mark, told string }{
		{testUUID + ":5", mine, "holdfast:gone:{pool}:" + testUUID + ":5", testUUID + ":5"},
		{hex.EncodeToString([]byte(mine)), mine, "holdfast:gone:{pool}:" + testUUID + ":5", testUUID + ":5"},
		{hex.EncodeToString([]byte(java)), java, "", ""},
		{"a:1", layout.PermitID("a:1"), "holdfast:gone:{pool}:a:1", ""},
	} {
		conn := &fakeConn{answer: registered(map[string]func(Call) Result{
			"force": func(Call) Result { return Result{Err: &ReplyError{Text: "WRONGTYPE no"}} },
		})}
		err := New(conn, nil).ForceUnlock(t.Context(), "pool", admin.Holder{Owner: c.shown, Holds: 1, Remaining: time.Minute}, "INC-7")
		if err != nil {
			t.Fatalf("%s: %v", c.shown, err)
		}
		var ended, told []Call
		for _, calls := range conn.sent {
			for _, call := range calls {
				switch call.Script.Name() {
				case "semaphore_force":
					ended = append(ended, call)
				case "publish":
					told = append(told, call)
				}
			}
		}
		keys := []string{"pool", "{pool}:timeout"}
		if c.mark != "" {
			keys = append(keys, c.mark)
		}
		if len(ended) != 1 || !slices.Equal(ended[0].Keys, keys) || !slices.Equal(ended[0].Args[:4], []string{c.id, "INC-7", "60000", "redisson_sc:{pool}"}) {
			t.Errorf("%s: got %+v, want %q for %x", c.shown, ended, keys, c.id)
		}
		if c.told == "" && len(told) != 0 || c.told != "" && (len(told) != 1 || !slices.Equal(told[0].Args[:2], []string{"holdfast:client:" + testUUID, c.told})) {
			t.Errorf("%s: told %+v, want %q", c.shown, told, c.told)
		}
	}
}
