package fair

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A waiter without a message has no grant.
func TestNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := waiter{grantable: Presence, alive: 7}
		if got := w.Granted(); got.Granted {
			t.Errorf("got %+v", got)
		}
		w.Close()
	})
}

func TestParseMessage(t *testing.T) {
	for payload, want := range map[string]grant{
		"5:7:40:6:orders:a:1":        {5, 7, 40 * time.Millisecond, "orders"},
		"9007199254740991:7:0:1:x:a": {1<<53 - 1, 7, 0, "x"},
		"5:7:40:9:a:b:{c}:x:a:1":     {5, 7, 40 * time.Millisecond, "a:b:{c}:x"},
		"5:7:40:3:é1:a":              {5, 7, 40 * time.Millisecond, "é1"},
		"0:0:a:1":                    {},
	} {
		if owner, got := parseMessage(payload); !strings.HasPrefix(owner, "a") || got != want {
			t.Errorf("%q: got %q and %v", payload, owner, got)
		}
	}
	for _, payload := range []string{
		"", "0", "1", "5:7", "5:7:", ":7:a", "5::a", "0:7:a", "5:0:a", "5:7:a:1", "5:7:-4:a", "5:7:4:", "-5:7:4:a", "5:-7:4:a", "9007199254740992:7:4:1:x:a", "5.5:7:4:1:x:a", "5:7.0:4:1:x:a", "x:y:z",
		"5:7:40:a:1", // of a version that did not name the lock
		"5:7:4:1:x", "5:7:4:1:x:", "5:7:4:2:x:a", "5:7:4:9:x:a", "5:7:4:-1:x:a", "5:7:4:99999999999:x:a", "5:7:4::x:a",
	} {
		if owner, got := parseMessage(payload); owner != "" {
			t.Errorf("%q: got %q and %v, want nothing", payload, owner, got)
		}
	}
}
