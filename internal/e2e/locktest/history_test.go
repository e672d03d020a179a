package locktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// What a line of a history says.
const (
	evCalled   = "called"   // the lock is asked for
	evGranted  = "granted"  // the call returned a lock
	evFailed   = "failed"   // the call returned an error
	evUnlock   = "unlock"   // Unlock is called
	evUnlocked = "unlocked" // Unlock returned
	evLost     = "lost"     // the holder was told of a loss
	evPaused   = "paused"   // the process was stopped: written by the parent
	evResumed  = "resumed"
	evKilled   = "killed"
)

// side is what a hold keeps out.
type side string

const (
	exclusive side = "exclusive" // everybody
	write     side = "write"     // everybody
	read      side = "read"      // writers
	permit    side = "permit"    // nobody, up to a number
)

// alone says that a hold of this side may have no other beside it.
func (s side) alone() bool { return s == exclusive || s == write }

// event is one line of a history. All processes run on one machine, so that their
// wall clocks are the same.
type event struct {
	At    int64  // wall clock, nanoseconds
	What  string // one of the constants above
	Op    int64  // which operation of the process
	Name  string `json:",omitempty"`
	Side  side   `json:",omitempty"`
	Token uint64 `json:",omitempty"`
	Lease int64  `json:",omitempty"` // nanoseconds, with evCalled
	Fixed bool   `json:",omitempty"` // the lease is not renewed
	Left  int64  `json:",omitempty"` // nanoseconds, with evGranted
	Err   string `json:",omitempty"` // "busy", "lost" or the error's text

	process int // which run of a worker: set by the parent
}

func (e event) String() string {
	text := fmt.Sprintf("%s process %d op %d %s", time.Unix(0, e.At).Format("05.000000"), e.process, e.Op, e.What)
	if e.Name != "" {
		text += fmt.Sprintf(" %s %q", e.Side, e.Name)
	}
	if e.Token != 0 {
		text += fmt.Sprintf(" token %d", e.Token)
	}
	if e.Err != "" {
		text += ": " + e.Err
	}
	return text
}

// never is an instant that does not come.
const never = int64(math.MaxInt64)

// operation is all that is known of one acquisition. Instants are wall clock
// nanoseconds, never if they did not come.
type operation struct {
	process int
	op      int64
	name    string
	side    side
	lease   int64
	fixed   bool
	token   uint64

	called             int64
	granted, failed    int64
	unlock, unlocked   int64
	lost               int64 // told by a context, or known from the clock
	failure, unlockErr string
	killed             int64
}

// ended returns when the holder stopped to believe that it holds the lock.
func (o operation) ended() int64 { return min(o.unlock, o.lost, o.killed) }

// history is what all processes reported, in the order of time.
type history struct {
	events     []event
	operations []operation
	pauses     []pause
}

// pause is a time in which a process was stopped. What it believed then had no
// consequence.
type pause struct {
	process  int
	from, to int64
}

// pauseGrace is how long a process that was stopped past its lease may take to
// learn of it.
const pauseGrace = int64(10 * time.Millisecond)

// newHistory puts together what several processes reported.
func newHistory(events []event) *history {
	h := &history{events: slices.Clone(events)}
	slices.SortStableFunc(h.events, func(a, b event) int { return cmp.Compare(a.At, b.At) })
	type key struct {
		process int
		op      int64
	}
	at := map[key]int{}
	killed, stopped := map[int]int64{}, map[int]int64{}
	for _, e := range h.events {
		i, known := at[key{e.process, e.Op}]
		switch {
		case e.What == evKilled:
			killed[e.process] = e.At
		case e.What == evPaused:
			stopped[e.process] = e.At
		case e.What == evResumed:
			h.pauses = append(h.pauses, pause{e.process, stopped[e.process], e.At})
		case e.What == evCalled:
			at[key{e.process, e.Op}] = len(h.operations)
			h.operations = append(h.operations, operation{
				process: e.process, op: e.Op, name: e.Name, side: e.Side, lease: e.Lease, fixed: e.Fixed, called: e.At,
				granted: never, failed: never, unlock: never, unlocked: never, lost: never, killed: never,
			})
		case known:
			h.operations[i].add(e)
		}
	}
	for i := range h.operations {
		if t, dead := killed[h.operations[i].process]; dead {
			h.operations[i].killed = t
		}
	}
	return h
}

func (o *operation) add(e event) {
	switch e.What {
	case evGranted:
		o.granted, o.token = e.At, e.Token
		if o.fixed { // Lock.Err is right at that instant; a context may be told late
			o.lost = e.At + e.Left
		}
	case evFailed:
		o.failed, o.failure = e.At, e.Err
	case evUnlock:
		o.unlock = e.At
	case evUnlocked:
		o.unlocked, o.unlockErr = e.At, e.Err
	case evLost:
		o.lost = min(o.lost, e.At)
	}
}

// belief is a time in which a holder believed that it holds a lock.
type belief struct {
	*operation
	from, to int64
}

// beliefs returns them by name, in the order of time.
func (h *history) beliefs() map[string][]belief {
	all := map[string][]belief{}
	for i := range h.operations {
		o := &h.operations[i]
		if o.granted == never {
			continue
		}
		from, to := o.granted, o.ended()
		for _, p := range h.pauses {
			if p.process != o.process || p.from >= to || p.to <= from {
				continue
			}
			if from < p.from {
				all[o.name] = append(all[o.name], belief{o, from, p.from})
			}
			from = p.to + pauseGrace
		}
		if from < to {
			all[o.name] = append(all[o.name], belief{o, from, to})
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}

// sweep is what checking a history brought.
type sweep struct {
	holds   int
	most    map[side]int // at the same time
	failure error        // the first violation
}

// check walks over all beliefs of all names and looks for two that exclude each
// other, for more than so many permits, and for tokens that do not rise.
func (h *history) check(permits int) sweep {
	s := sweep{most: map[side]int{}}
	beliefs := h.beliefs()
	names := make([]string, 0, len(beliefs))
	for name := range beliefs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s.holds += len(beliefs[name])
		for _, err := range []error{h.disjoint(beliefs[name], permits, s.most), h.rising(name), h.fenced(beliefs[name])} {
			if err != nil && s.failure == nil {
				s.failure = err
			}
		}
	}
	return s
}

// disjoint checks who holds one name at the same time.
func (h *history) disjoint(beliefs []belief, permits int, most map[side]int) error {
	var active []belief
	for _, b := range beliefs {
		active = slices.DeleteFunc(active, func(a belief) bool { return a.to <= b.from })
		beside := 0
		for _, a := range active {
			if a.side.alone() || b.side.alone() || a.side != b.side {
				return h.violation(b.from, a, b, "hold %q at the same time", b.name)
			}
			beside++
		}
		if b.side == permit && beside >= permits {
			return h.violation(b.from, active[0], b, "hold %q with %d others between them, of %d permits", b.name, beside-1, permits)
		}
		active = append(active, b)
		most[b.side] = max(most[b.side], beside+1)
	}
	return nil
}

// rising checks that a lock that was asked for after another was granted has a
// larger token, whatever the sides.
func (h *history) rising(name string) error {
	var granted, called []*operation
	for i := range h.operations {
		if o := &h.operations[i]; o.name == name && o.granted != never {
			granted, called = append(granted, o), append(called, o)
		}
	}
	slices.SortFunc(granted, func(a, b *operation) int { return cmp.Compare(a.granted, b.granted) })
	slices.SortFunc(called, func(a, b *operation) int { return cmp.Compare(a.called, b.called) })
	var largest *operation
	for _, o := range called {
		for len(granted) > 0 && granted[0].granted < o.called {
			if largest == nil || granted[0].token > largest.token {
				largest = granted[0]
			}
			granted = granted[1:]
		}
		if largest != nil && o.token <= largest.token {
			return h.violation(o.granted, belief{operation: largest}, belief{operation: o}, "have tokens of %q that do not rise", name)
		}
	}
	return nil
}

// fenced checks the same in the order of holding, where one of the two excludes
// the other: more than rising finds, as the calls overlap while one waits.
func (h *history) fenced(beliefs []belief) error {
	var all, writers belief // with the largest token so far
	for _, b := range beliefs {
		before := writers
		if b.side.alone() {
			before = all
		}
		if before.operation != nil && before.operation != b.operation && b.token <= before.token {
			return h.violation(b.from, before, b, "have tokens of %q that do not rise", b.name)
		}
		if all.operation == nil || b.token > all.token {
			all = b
		}
		if b.side.alone() && (writers.operation == nil || b.token > writers.token) {
			writers = b
		}
	}
	return nil
}

// violation describes what two operations did wrong, with what happened on the
// name around that time.
func (h *history) violation(at int64, a, b belief, format string, args ...any) error {
	var text strings.Builder
	fmt.Fprintf(&text, "process %d op %d (%s, token %d) and process %d op %d (%s, token %d) ",
		a.process, a.op, a.side, a.token, b.process, b.op, b.side, b.token)
	fmt.Fprintf(&text, format, args...)
	for _, e := range h.around(b.name, at) {
		fmt.Fprintf(&text, "\n\t%v", e)
	}
	return fmt.Errorf("%s", text.String())
}

// around returns the events of a name, and of whole processes, before and after
// an instant.
func (h *history) around(name string, at int64) []event {
	names := map[[2]int64]string{}
	for _, o := range h.operations {
		names[[2]int64{int64(o.process), o.op}] = o.name
	}
	var before, after []event
	for _, e := range h.events {
		whole := e.What == evKilled || e.What == evPaused || e.What == evResumed
		switch {
		case !whole && names[[2]int64{int64(e.process), e.Op}] != name:
		case e.At <= at:
			before = append(before, e)
		case len(after) < 5:
			after = append(after, e)
		}
	}
	return slices.Concat(before[max(0, len(before)-12):], after)
}
