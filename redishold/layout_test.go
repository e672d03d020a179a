package redishold

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func TestOptionsThatCannotBe(t *testing.T) {
	for name, o := range map[string]*Options{
		"unknown layout":              {Layout: 3},
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

func TestProtocolSendsNoScriptOfAnother(t *testing.T) {
	for _, p := range []Layout{Plain, Timestamp} {
		conn := &fakeConn{}
		b := New(conn, &Options{Layout: p})
		c := testClaim("orders")
		for _, c.Indeterminate = range []bool{false, true} {
			mustTry(t, b, c)
			mustRenew(t, b, c)
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatalf("%s: Release: %v", p, err)
			}
		}
		for _, script := range conn.scripts() {
			if !strings.HasPrefix(script, p.String()+"_") && script != "register" && script != "probe" {
				t.Errorf("%s: sent script %s", p, script)
			}
		}
	}
}

func TestHoldersOfOtherLibraries(t *testing.T) {
	b := New(&fakeConn{}, &Options{Layout: Plain})
	for _, value := range []string{"MTIzNDU2Nzg5MDEyMzQ1Ng==", "host:4121", testUUID, testUUID + ":7"} {
		if got := b.clients.DescribeOwner(t.Context(), value); got != value {
			t.Errorf("got %q, want the value %q", got, value)
		}
	}
}
