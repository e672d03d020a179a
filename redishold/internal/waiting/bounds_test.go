package waiting

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// The number of other listeners is kept for a bounded number of channels.
func TestOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts Topics
		for i := range 3 * maxRemembered {
			ts.SetOthers(Key{Channel: strconv.Itoa(i)}, 1)
		}
		if got := len(ts.closed); got > maxRemembered {
			t.Errorf("%d names are remembered, want at most %d", got, maxRemembered)
		}
		last := Key{Channel: strconv.Itoa(3*maxRemembered - 1)}
		ts.SetOthers(last, 0)
		if got := ts.join(last).others; got != 0 {
			t.Errorf("%d others are remembered of a name that nobody waits for", got)
		}
		last = Key{Channel: "later"}
		ts.SetOthers(last, 1)
		time.Sleep(rememberFor + 1)
		if got := ts.join(last).others; got != 0 {
			t.Errorf("after %v %d others are remembered", rememberFor, got)
		}
		ts.SetOthers(Key{Channel: "alone"}, 0)
		if _, known := ts.closed[Key{Channel: "alone"}]; known {
			t.Error("a name that nobody waits for is remembered")
		}
	})
}

// Messages for owners that never wait are kept up to a bounded number.
func TestStraysAreBounded(t *testing.T) {
	var m mailboxes
	m.box("here").waiting = true
	for i := range 3 * maxUnread {
		m.deliver("here", uint64(i), "")
		m.deliver(strconv.Itoa(i/2), uint64(i), "")
	}
	if len(m.boxes) > maxUnread+1 || len(m.unread) > maxUnread || m.boxes["here"] == nil {
		t.Fatalf("%d mailboxes and %d strays are kept, and %v", len(m.boxes), len(m.unread), m.boxes["here"])
	}
}
