package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind says what a Violation is.
type Kind string

// Kinds of violations.
const (
	Overlap  Kind = "overlap"  // two hold what only one may hold, or more than so many hold permits
	Token    Kind = "token"    // who asked after another was granted has a token that is not larger
	Order    Kind = "order"    // who was granted after another has a token that is not larger
	Late     Kind = "late"     // a holder believed in its lock past its deadline
	Untold   Kind = "untold"   // a holder was not notified of a loss before the next was granted
	Sleeping Kind = "sleeping" // a lock was free and one who waited for it did not get it
	Update   Kind = "update"   // what the lock protects was written over
	Disorder Kind = "disorder" // no order of the calls explains the answers
)

// Violation is something that must not happen.
type Violation struct {
	Kind Kind
	At   int64 // when the second of two came, wall clock nanoseconds
	To   int64 // Overlap: when it ended
	Name string
	A, B *Operation // the two; A was first. B may be nil
	Text string     // what happened, with the events on the name around that time
}

// Error is the violation for people.
func (v *Violation) Error() string { return v.Text }

// Rules are what a history is judged by.
type Rules struct {
	Permits   int  // of every semaphore
	Tokenless bool // the store has no tokens
}

// Sweep is what checking a history brought.
type Sweep struct {
	Holds      int
	Most       map[Side]int // at the same time
	Violations []*Violation // in the order of time for each name
}

// Err returns the first violation, or nil.
func (s Sweep) Err() error {
	if len(s.Violations) == 0 {
		return nil
	}
	return slices.MinFunc(s.Violations, func(a, b *Violation) int { return cmp.Compare(a.At, b.At) })
}

// Check walks over all beliefs of all names and looks for two that exclude each
// other, for more than so many permits, and for tokens that do not rise.
func (h *History) Check(rules Rules) Sweep {
	s := Sweep{Most: map[Side]int{}}
	beliefs := h.beliefs()
	for _, name := range slices.Sorted(maps.Keys(beliefs)) {
		s.Holds += len(beliefs[name])
		s.Violations = append(s.Violations, h.disjoint(beliefs[name], rules.Permits, s.Most)...)
		if !rules.Tokenless {
			s.Violations = append(s.Violations, h.rising(name)...)
			s.Violations = append(s.Violations, h.fenced(beliefs[name])...)
		}
	}
	return s
}

// disjoint checks the holders of one name at the same time.
func (h *History) disjoint(beliefs []belief, permits int, most map[Side]int) (found []*Violation) {
	var active []belief
	for _, b := range beliefs {
		active = slices.DeleteFunc(active, func(a belief) bool { return a.to <= b.from })
		beside := 0
		for _, a := range active {
			if a.Side.Alone() || b.Side.Alone() || a.Side != b.Side {
				found = append(found, h.overlap(a, b, "hold %q at the same time", b.Name))
				continue
			}
			beside++
		}
		if b.Side == Permit && beside >= permits {
			found = append(found, h.overlap(active[0], b, "hold %q with %d others between them, of %d permits", b.Name, beside-1, permits))
		}
		active = append(active, b)
		most[b.Side] = max(most[b.Side], beside+1)
	}
	return found
}

func (h *History) overlap(a, b belief, format string, args ...any) *Violation {
	v := h.violation(Overlap, b.from, a.Operation, b.Operation, format, args...)
	v.To = min(a.to, b.to)
	return v
}

// rising checks that a lock that was asked for after another was granted has a
// larger token, whatever the sides.
func (h *History) rising(name string) (found []*Violation) {
	var granted, called []*Operation
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Name == name && o.held() {
			granted, called = append(granted, o), append(called, o)
		}
	}
	slices.SortFunc(granted, func(a, b *Operation) int { return cmp.Compare(a.Granted, b.Granted) })
	slices.SortFunc(called, func(a, b *Operation) int { return cmp.Compare(a.Called, b.Called) })
	var largest *Operation
	for _, o := range called {
		for len(granted) > 0 && granted[0].Granted < o.Called {
			if largest == nil || granted[0].Token > largest.Token {
				largest = granted[0]
			}
			granted = granted[1:]
		}
		if largest != nil && o.Token <= largest.Token {
			found = append(found, h.violation(Token, o.Granted, largest, o, "have tokens of %q that do not rise", name))
		}
	}
	return found
}

// fenced checks the same in the order of holding, where one of the two excludes
// the other: more than rising finds, as the calls overlap while one waits. It
// holds as long as the store forgets nothing: then the answer of one who was
// granted the lock before may come after.
func (h *History) fenced(beliefs []belief) (found []*Violation) {
	var all, writers belief // with the largest token so far
	for _, b := range beliefs {
		if b.from != b.Granted {
			continue // it goes on after a pause
		}
		before := writers
		if b.Side.Alone() {
			before = all
		}
		if before.Operation != nil && before.Operation != b.Operation && b.Token <= before.Token {
			found = append(found, h.violation(Order, b.from, before.Operation, b.Operation, "have tokens of %q that do not rise", b.Name))
		}
		if all.Operation == nil || b.Token > all.Token {
			all = b
		}
		if b.Side.Alone() && (writers.Operation == nil || b.Token > writers.Token) {
			writers = b
		}
	}
	return found
}

// violation describes what two operations did wrong, with what happened on the
// name around that time.
func (h *History) violation(kind Kind, at int64, a, b *Operation, format string, args ...any) *Violation {
	v := &Violation{Kind: kind, At: at, To: at, Name: a.Name, A: a, B: b}
	var text strings.Builder
	fmt.Fprintf(&text, "process %d op %d (%s, token %d) ", a.Process, a.Op, a.Side, a.Token)
	if b != nil {
		fmt.Fprintf(&text, "and process %d op %d (%s, token %d) ", b.Process, b.Op, b.Side, b.Token)
	}
	fmt.Fprintf(&text, format, args...)
	for _, e := range h.around(a.Name, at) {
		fmt.Fprintf(&text, "\n\t%v", e)
	}
	v.Text = text.String()
	return v
}

// around returns the events of a name, and of whole processes, before and after
// an instant.
func (h *History) around(name string, at int64) []Event {
	names := map[[2]int64]string{}
	for _, o := range h.Operations {
		names[[2]int64{int64(o.Process), o.Op}] = o.Name
	}
	var before, after []Event
	for _, e := range h.Events {
		switch {
		case !e.whole() && names[[2]int64{int64(e.Process), e.Op}] != name:
		case e.At <= at:
			before = append(before, e)
		case len(after) < 5:
			after = append(after, e)
		}
	}
	return slices.Concat(before[max(0, len(before)-12):], after)
}
