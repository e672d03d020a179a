package waiting

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// How many others want names for which nobody waits is forgotten.
func TestOthersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts Topics
		for i := range 3 * othersMost {
			ts.Counted(strconv.Itoa(i), 1)
		}
		if got := len(ts.others); got > othersMost {
			t.Errorf("%d names are remembered, want at most %d", got, othersMost)
		}
		last := strconv.Itoa(3*othersMost - 1)
		ts.Counted(last, 0)
		if _, known := ts.others[last]; known {
			t.Error("a name that nobody waits for is remembered")
		}
		ts.Counted(last, 1)
		time.Sleep(othersLast + 1)
		if got := ts.remembered(last); got != 0 {
			t.Errorf("after %v %d others are remembered", othersLast, got)
		}
	})
}

// Messages for those who never wait are forgotten.
func TestStraysAreBounded(t *testing.T) {
	var m message
	m.box("here").waits = true
	for i := range 3 * straysMost {
		m.deliver("here", uint64(i), "")
		m.deliver(strconv.Itoa(i/2), uint64(i), "")
	}
	if len(m.boxes) > straysMost+1 || len(m.strays) > straysMost || m.boxes["here"] == nil {
		t.Fatalf("%d mailboxes and %d strays are kept, and %v", len(m.boxes), len(m.strays), m.boxes["here"])
	}
}
