package judge

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is an event of process 1, if no other is named, at ms.
type line struct {
	ms      int64
	op      int64
	what    string
	process int
	left    int64 // ms
	err     string
	token   uint64
}

// lines makes a history of one exclusive lock with a lease of 100 ms.
func lines(all ...line) *History {
	events := make([]Event, len(all))
	for i, l := range all {
		events[i] = Event{At: l.ms * 1e6, What: l.what, Op: l.op, Name: "a", Side: Exclusive, Lease: 100e6, Left: l.left * 1e6, Err: l.err, Token: l.token, Watched: true, Process: max(1, l.process)}
		if l.op == 0 {
			events[i].Op = -1
		}
	}
	return New(events)
}

// A process that uses a lock past its deadline is found, unless the process did
// not run.
func TestOverdue(t *testing.T) {
	held := []line{{0, 1, Called, 0, 0, "", 0}, {1, 1, Granted, 0, 90, "", 1}}
	for name, test := range map[string]struct {
		more []line
		want int
	}{
		"told in time":                   {[]line{{91, 1, Lost, 0, 0, "", 0}}, 0},
		"told a little late":             {[]line{{94, 1, Lost, 0, 0, "", 0}}, 0},
		"told late":                      {[]line{{120, 1, Lost, 0, 0, "", 0}}, 1},
		"unlocked late":                  {[]line{{120, 1, Unlock, 0, 0, "", 0}}, 1},
		"unlocked in time":               {[]line{{80, 1, Unlock, 0, 0, "", 0}, {200, 1, Unlocked, 0, 0, "", 0}}, 0},
		"renewed":                        {[]line{{30, 1, Renewed, 0, 90, "", 0}, {120, 1, Unlock, 0, 0, "", 0}}, 0},
		"renewed, told late":             {[]line{{30, 1, Renewed, 0, 90, "", 0}, {140, 1, Lost, 0, 0, "", 0}}, 1},
		"its clock allowed too much":     {[]line{{30, 1, Renewed, 0, 500, "", 0}, {140, 1, Lost, 0, 0, "", 0}}, 1},
		"late because it was stopped":    {[]line{{50, 0, Paused, 0, 0, "", 0}, {190, 0, Resumed, 0, 0, "", 0}, {194, 1, Lost, 0, 0, "", 0}}, 0},
		"late because it had no machine": {[]line{{150, 0, Stalled, 0, 60, "", 0}, {151, 1, Lost, 0, 0, "", 0}}, 0},
		"stopped, and late beside that":  {[]line{{50, 0, Paused, 0, 0, "", 0}, {190, 0, Resumed, 0, 0, "", 0}, {230, 1, Lost, 0, 0, "", 0}}, 1},
		"killed in time":                 {[]line{{80, 0, Killed, 0, 0, "", 0}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lines(append(held, test.more...)...).Overdue(5 * time.Millisecond); len(got) != test.want {
				t.Errorf("got %v, want %d", got, test.want)
			}
		})
	}
}

// A loss is measured against the next grant.
func TestLosses(t *testing.T) {
	h := lines(line{0, 1, Called, 0, 0, "", 0}, line{1, 1, Granted, 0, 90, "", 1}, line{93, 1, Lost, 0, 0, "", 0},
		line{10, 1, Called, 2, 0, "", 0}, line{105, 1, Granted, 2, 90, "", 2}, line{205, 1, Lost, 2, 0, "", 0},
		line{20, 1, Called, 3, 0, "", 0}, line{203, 1, Granted, 3, 90, "", 3}, line{220, 1, Unlock, 3, 0, "", 0})
	got := h.Losses(2)
	if len(got) != 2 {
		t.Fatalf("got %d losses, want 2", len(got))
	}
	if l := got[0]; l.Process != 1 || l.Early != 12*time.Millisecond || l.Late != 2*time.Millisecond {
		t.Errorf("the first: got %v early, %v late", l.Early, l.Late)
	}
	if l := got[1]; l.Process != 2 || l.Early != -2*time.Millisecond || l.Late != 10*time.Millisecond {
		t.Errorf("the second: got %v early, %v late", l.Early, l.Late)
	}
}

// The loss of a permit counts against the one that is granted one too many beside it.
func TestLossesOfPermits(t *testing.T) {
	for name, test := range map[string]struct {
		other int64 // when another permit was released
		want  bool
	}{
		"the last permit":     {400, true},
		"another one is free": {50, false},
	} {
		t.Run(name, func(t *testing.T) {
			var events []Event
			add := func(ms int64, what string, op int64) {
				events = append(events, Event{At: ms * 1e6, What: what, Op: op, Name: "a", Side: Permit, Lease: 100e6, Left: 90e6, Process: int(op), Watched: true})
			}
			for op := int64(1); op <= 3; op++ {
				add(0, Called, op)
			}
			add(1, Granted, 1)
			add(2, Granted, 2)
			add(test.other, Unlock, 2)
			add(105, Granted, 3)
			add(110, Lost, 1)
			add(500, Unlock, 3)
			losses := New(events).Losses(2)
			if len(losses) != 1 {
				t.Fatalf("got %d losses, want 1", len(losses))
			}
			if l := losses[0]; (l.Next != nil) != test.want || test.want && l.Early != -5*time.Millisecond {
				t.Errorf("got next %v, %v early, want one: %v", l.Next, l.Early, test.want)
			}
		})
	}
}

// The time in which a lock was free and somebody waited is measured from the
// moment at which it was free for certain.
func TestWaits(t *testing.T) {
	waiter := []line{{10, 1, Called, 2, 0, "", 0}, {300, 1, Granted, 2, 90, "", 2}}
	for name, test := range map[string]struct {
		first []line
		want  int64 // ms
	}{
		"released":                 {[]line{{1, 1, Granted, 0, 90, "", 1}, {20, 1, Unlock, 0, 0, "", 0}, {25, 1, Unlocked, 0, 0, "", 0}}, 275},
		"released before":          {[]line{{1, 1, Granted, 0, 90, "", 1}, {2, 1, Unlock, 0, 0, "", 0}, {3, 1, Unlocked, 0, 0, "", 0}}, 290},
		"the release is not known": {[]line{{1, 1, Granted, 0, 90, "", 1}, {20, 1, Unlock, 0, 0, "", 0}, {25, 1, Unlocked, 0, 0, "lost", 0}}, 180},
		"killed":                   {[]line{{1, 1, Granted, 0, 90, "", 1}, {150, 0, Killed, 0, 0, "", 0}}, 50},
		"given up":                 {[]line{{100, 1, Failed, 0, 0, "no answer", 0}}, 100},
		"waits too":                {[]line{{400, 1, Granted, 0, 0, "", 3}}, 290},
	} {
		t.Run(name, func(t *testing.T) {
			h := lines(append(append([]line{{0, 1, Called, 0, 0, "", 0}}, test.first...), waiter...)...)
			for _, w := range h.Waits(0, func(string) bool { return true }) {
				if w.Process != 2 {
					continue
				}
				if w.Duration() != time.Duration(test.want)*time.Millisecond {
					t.Errorf("got %v, want %d ms", w.Duration(), test.want)
				}
				return
			}
			t.Error("no wait")
		})
	}
}

// A call that gave up while nothing was broken leaves the lock soon. A waiter that gives up has
// waited, too.
func TestWaitsBesideCallsThatGaveUp(t *testing.T) {
	h := lines(
		line{0, 1, Called, 0, 0, "", 0}, line{100, 1, Failed, 0, 0, "context canceled", 0},
		line{10, 1, Called, 2, 0, "", 0}, line{700, 1, Failed, 2, 0, "context canceled", 0},
	)
	h.Operations[0].Removed = true
	waits := h.Waits(0, func(string) bool { return true })
	i := slices.IndexFunc(waits, func(w Wait) bool { return w.Process == 2 })
	if want := 700*time.Millisecond - 100*time.Millisecond - RemovedWithin; i < 0 || waits[i].Duration() != want {
		t.Errorf("got %v, want one of %v", waits, want)
	}
}

// The time does not count in which a process did not run, or the store did not answer.
func TestAwake(t *testing.T) {
	const ms = int64(time.Millisecond)
	h := New([]Event{
		{At: 200 * ms, What: Stalled, Op: -1, Process: 1, Left: 100 * ms},
		{At: 250 * ms, What: Silent, Op: -1, Process: 2, Left: 80 * ms},
		{At: 900 * ms, What: Stalled, Op: -1, Process: 2, Left: 100 * ms},
	})
	for process, want := range map[int]int64{1: 850, 2: 820, Any: 750} {
		if got := h.Awake(process, 0, 1000*ms); got != time.Duration(want*ms) {
			t.Errorf("process %d was awake for %v, want %d ms", process, got, want)
		}
	}
	if before, after := h.Silence(0, 170*ms), h.Silence(0, 171*ms); before != 0 || after != 80*time.Millisecond {
		t.Errorf("got a silence of %v until 170 ms, want none; and of %v until 171 ms, want 80ms", before, after)
	}
}

// A write that undoes another is found; a fence refuses it if tokens rise.
func TestRegisters(t *testing.T) {
	for name, test := range map[string]struct {
		second                 uint64 // token
		late                   bool   // the first writes after the second
		plain, fenced, refused int
	}{
		"one after the other":  {2, false, 0, 0, 0},
		"the first comes late": {2, true, 1, 0, 1},
		"tokens do not rise":   {1, true, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			wrote := int64(20)
			if test.late {
				wrote = 60
			}
			h := lines(line{0, 1, Called, 0, 0, "", 0}, line{1, 1, Granted, 0, 90, "", 1}, line{2, 1, Read, 0, 0, "", 0}, line{wrote, 1, Wrote, 0, 0, "", 0},
				line{0, 1, Called, 2, 0, "", 0}, line{30, 1, Granted, 2, 90, "", test.second}, line{31, 1, Read, 2, 0, "", 0}, line{40, 1, Wrote, 2, 0, "", 0})
			plain, fenced, refused := h.Registers()
			if len(plain) != test.plain || len(fenced) != test.fenced || refused != test.refused {
				t.Errorf("got %d, %d and %d refused, want %d, %d, %d", len(plain), len(fenced), refused, test.plain, test.fenced, test.refused)
			}
		})
	}
}
