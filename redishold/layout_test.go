package redishold

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
)

func TestOptionsThatCannotBe(t *testing.T) {
	for name, o := range map[string]*Options{
		"unknown protocol":            {Layout: 3},
		"shared tokens and plain":     {Layout: Plain, SharedTokens: true},
		"shared tokens and timestamp": {Layout: Timestamp, SharedTokens: true},
		"fewer than no replicas":      {Replicas: -2},
		"negative poll":               {Poll: -1},
	} {
		conn := &fakeConn{}
		b := New(conn, o)
		_, err := b.Try(t.Context(), testClaim("orders"))
		wantErrors(t, name, err, driver.ErrRefused, driver.ErrNotExecuted)
		if sent := conn.scripts(); len(sent) != 0 {
			t.Errorf("%s: sent %q, want nothing", name, sent)
		}
	}
}

func TestProtocolsClaimWhatTheyCan(t *testing.T) {
	exclusive := driver.Caps{Fencing: true, Wakes: true, ExpiresAlone: true, Tombstones: true}
	plain, stamp := New(&fakeConn{}, &Options{Layout: Plain}).Info(), New(&fakeConn{}, &Options{Layout: Timestamp}).Info()
	keeps := exclusive
	keeps.AtLeast = true
	if plain.Caps != keeps || plain.MinTTL != 10*time.Millisecond || plain.TTLStep != time.Millisecond {
		t.Errorf("plain: got %+v", plain)
	}
	if stamp.Caps != exclusive || stamp.MinTTL != time.Second || stamp.TTLStep != time.Second {
		t.Errorf("timestamp: got %+v", stamp)
	}
	for _, p := range []Layout{Plain, Timestamp} {
		conn := &fakeConn{}
		_, err := New(conn, &Options{Layout: p}).SetCount(t.Context(), "latch", "call", 2)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), p.String()) {
			t.Errorf("a latch: got %v, want ErrUnsupported that names the layout %s", err, p)
		}
	}
}

// TestProtocolKeys also shows that a protocol sends no script of another one.
func TestProtocolKeys(t *testing.T) {
	const mark, counter = "app:holdfast:gone:{app:orders}:" + testUUID + ":1", "app:holdfast:token:{"
	for p, record := range map[Layout][]string{Plain: nil, Timestamp: {"app:holdfast:ts:{app:orders}"}} {
		conn := &fakeConn{}
		b := New(conn, &Options{Layout: p, KeyPrefix: "app:"})
		c := testClaim("orders")
		c.Tokens = 5
		mustTry(t, b, c)
		last := func() Call { return conn.sent[len(conn.sent)-1][0] }
		keys := last().Keys
		if want := append([]string{"app:orders", mark, keys[2]}, record...); !slices.Equal(keys, want) || !strings.HasPrefix(keys[2], counter) {
			t.Errorf("%s: acquire: got keys %q, want %q", p, keys, want)
		}
		if want := []string{c.Owner, "30000", "5", "app:holdfast:client:"}; !slices.Equal(last().Args, want) {
			t.Errorf("%s: acquire: got arguments %q, want %q", p, last().Args, want)
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Fatalf("%s: Release: %v", p, err)
		}
		if want := append([]string{"app:orders"}, record...); !slices.Equal(last().Keys, want) {
			t.Errorf("%s: release: got keys %q, want %q", p, last().Keys, want)
		}
		if want := []string{c.Owner, "holdfast:free:{app:orders}", "PUBLISH"}; !slices.Equal(last().Args, want) {
			t.Errorf("%s: release: got arguments %q, want %q", p, last().Args, want)
		}
		c.Indeterminate = true
		if err := b.Release(t.Context(), c); err != nil {
			t.Fatalf("%s: Release, indeterminate: %v", p, err)
		}
		if _, err := b.Renew(t.Context(), []driver.Claim{c}); err != nil {
			t.Fatalf("%s: Renew: %v", p, err)
		}
		for _, script := range conn.scripts() {
			if !strings.HasPrefix(script, p.String()+"_") && script != "register" && script != "probe" {
				t.Errorf("%s: sent script %s", p, script)
			}
		}
	}
}

func TestPrefixWithATagKeepsTheRecordInItsSlot(t *testing.T) {
	l := layout.New("{app}:", Timestamp.own(), false)
	for _, prefix := range []string{"{app}:", "app:", ""} {
		l.Prefix = prefix
		seen := map[string]bool{}
		for _, name := range []string{"orders", "{orders}", "{t}:orders"} {
			p := l.Place(name)
			if record := l.Record(p); seen[record] {
				t.Errorf("record %q belongs to two names", record)
			} else {
				seen[record] = true
			}
			if record := l.Record(p); layout.SlotOf(record) != layout.SlotOf(p.Lock) {
				t.Errorf("record %q of %q is in another slot", record, p.Lock)
			}
		}
	}
}

func TestSharedTokensUseRedissonsCounter(t *testing.T) {
	conn := &fakeConn{}
	b := New(conn, &Options{SharedTokens: true, KeyPrefix: "app:"})
	mustTry(t, b, testClaim("orders"))
	call := conn.sent[len(conn.sent)-1][0]
	if want := "redisson_lock_token:{app:orders}"; call.Keys[2] != want {
		t.Errorf("counter: got %q, want %q", call.Keys[2], want)
	}
	for _, name := range []string{"orders", "{t}:orders"} {
		if p := b.layout.Place(name); layout.SlotOf(p.Counter) != layout.SlotOf(p.Lock) {
			t.Errorf("counter %q of %q is in another slot", p.Counter, p.Lock)
		}
	}
	if got := b.layout.Pattern(b.layout.Place("orders"), "redisson_lock_token:{app:orders}"); got != "redisson_lock_token:*" {
		t.Errorf("ACL pattern: got %q, want redisson_lock_token:*", got)
	}
}

func TestHoldersOfOtherLibraries(t *testing.T) {
	b := New(&fakeConn{}, &Options{Layout: Plain})
	for _, value := range []string{"MTIzNDU2Nzg5MDEyMzQ1Ng==", "host:4121", testUUID, testUUID + ":7"} {
		if got := b.clients.Person(t.Context(), value); got != value {
			t.Errorf("got %q, want the value %q", got, value)
		}
	}
}
