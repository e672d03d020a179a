package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/history"
)

// What a judge lets pass.
const (
	// wakeLimit is how long a free lock may not be taken although somebody waits
	// and nothing is broken: the cap of a sleep, and time to do it.
	wakeLimit = 1500 * time.Millisecond
	// afterFault is for how long a fault is still felt after its end: back-off,
	// connections that are made again.
	afterFault = 2 * time.Second
	// modelLimit bounds the model checker for one name.
	modelLimit = 5 * time.Second
)

// round is what is known of one round.
type round struct {
	history *history.History
	windows []window
	fencing bool
}

// verdict is what judging a round brought.
type verdict struct {
	violations []*history.Violation
	explained  int // overlaps that a fault which loses writes explains
	swept      history.Sweep
	judged     history.Judgement
	losses     []history.Loss
	early      []time.Duration // how long before the next grant they were told
	tooLate    int             // told after it, and explained
	longest    history.Wait    // while nothing was broken
	quiet      int             // waits that were measured
	refused    int             // writes that the fence refused
	stale      int             // writes that undid another, and are explained
}

// judge applies all checks. What excuses a violation:
//
//   - Two who hold at once, or a write that undid another, are explained if a
//     fault that may lose writes took the first one's lock away: the fault covers
//     the name, the first had asked before the fault had healed (its answer may
//     have come after), the second was granted the lock after it had begun, and
//     the two ended to hold at once before one lease of the first had passed
//     since the healing.
//   - A write that undid another is also explained if the process that wrote was
//     stopped, or had no processor, between its read and its write: no lock
//     protects from that; a fence does.
//   - A context may tell of a loss as late as history.TellSlack after Lock.Err
//     does, which is right at once; how late it was is in the summary.
//   - The same fault explains that a holder whose lock was taken away is told of its
//     grant, with its smaller token, after the next one.
//   - Nothing explains a token that is not larger than that of a grant which was
//     known before the lock was asked for, a lost update at the fenced
//     register, or a belief past its deadline.
//   - The model judges exclusive locks that no such fault has touched, of stores
//     with tokens: a quorum may say busy when votes are split.
//   - Waiting is judged only where nothing was broken for the one who waited and
//     for all others who had asked for that name.
func (r *round) judge() verdict {
	var v verdict
	v.swept = r.history.Check(history.Rules{Permits: permits, Tokenless: !r.fencing})
	for _, found := range v.swept.Violations {
		switch {
		case found.Kind == history.Overlap && r.explains(found):
			v.explained++
			continue
		case found.Kind == history.Order && r.explainsOrder(found):
			continue
		}
		v.violations = append(v.violations, found)
	}
	v.violations = append(v.violations, r.history.Overdue(history.TellSlack)...)
	r.judgeLosses(&v)
	r.judgeUpdates(&v)
	r.judgeWaits(&v)
	spans := r.spans()
	v.judged = r.history.Linearizable(modelLimit, func(name string) bool {
		return r.fencing && strings.HasPrefix(name, mutexes+":") && !r.covered(name, spans[name])
	})
	v.violations = append(v.violations, v.judged.Violations...)
	return v
}

// explains says whether a fault that loses writes explains two holders.
func (r *round) explains(found *history.Violation) bool {
	lease := found.A.Lease + int64(history.TellSlack)
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(found.Name) && found.A.Called <= w.to && found.At >= w.from && found.To <= w.to+lease
	})
}

// explainsUpdate says the same of two who wrote, in whatever order: one held the
// lock before the other.
func (r *round) explainsUpdate(found *history.Violation) bool {
	first, second := found.A, found.B
	if second.Granted < first.Granted {
		first, second = second, first
	}
	return r.explains(&history.Violation{Name: found.Name, A: first, At: second.Granted, To: found.To})
}

// explainsOrder says whether a fault that loses writes explains that the second
// of two was told of its grant, with the smaller token, after the first: it asked
// before the fault had healed, the first was granted after it had begun, and the
// second, if it was not told in time, one lease after the healing at the latest.
func (r *round) explainsOrder(found *history.Violation) bool {
	lease := found.B.Lease + int64(history.TellSlack)
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(found.Name) && found.A.Granted >= w.from && found.B.Called <= w.to && found.B.Granted <= w.to+lease
	})
}

func (r *round) judgeLosses(v *verdict) {
	v.losses = r.history.Losses()
	for _, l := range v.losses {
		if l.Next == nil || l.Side == history.Permit || l.Asleep {
			continue
		}
		if l.Early >= 0 || l.Early >= -history.TellSlack && l.Ended() <= l.Next.Granted {
			v.early = append(v.early, l.Early)
			continue
		}
		found := &history.Violation{
			Kind: history.Untold, At: l.Next.Granted, To: l.Told, Name: l.Name, A: l.Operation, B: l.Next,
			Text: fmt.Sprintf("process %d op %d was told of the loss of %q %v after process %d op %d was granted it", l.Process, l.Op, l.Name, -l.Early, l.Next.Process, l.Next.Op),
		}
		if r.explains(found) {
			v.tooLate++
			continue
		}
		v.violations = append(v.violations, found)
	}
}

func (r *round) judgeUpdates(v *verdict) {
	plain, fenced, refused := r.history.Registers()
	v.refused = refused
	for _, found := range plain {
		if r.explainsUpdate(found) || r.history.Idle(found.B.Process, found.B.Read, found.B.Wrote) {
			v.stale++
			continue
		}
		v.violations = append(v.violations, found)
	}
	if r.fencing {
		v.violations = append(v.violations, fenced...)
	}
}

func (r *round) judgeWaits(v *verdict) {
	byName := map[string][]*history.Operation{}
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		byName[o.Name] = append(byName[o.Name], o)
	}
	waits := r.history.Waits(func(name string) bool { return !strings.HasPrefix(name, lockAlls+":") })
	for _, w := range waits {
		if r.disturbed(w, byName[w.Name]) {
			continue
		}
		v.quiet++
		if w.Duration() > v.longest.Duration() {
			v.longest = w
		}
		if w.Duration() > wakeLimit {
			v.violations = append(v.violations, &history.Violation{
				Kind: history.Sleeping, At: w.To, To: w.To, Name: w.Name, A: w.Operation,
				Text: fmt.Sprintf("%q was free for %v while process %d op %d waited for it and nothing was broken", w.Name, w.Duration(), w.Process, w.Op),
			})
		}
	}
}

// disturbed says that something was broken which may have kept w waiting.
func (r *round) disturbed(w history.Wait, ops []*history.Operation) bool {
	from := w.From - int64(longestTTL+afterFault)
	for _, f := range r.windows {
		if f.to+int64(afterFault) < from || f.from > w.To {
			continue
		}
		if f.process < 0 && f.to+int64(afterFault) >= w.From {
			return true
		}
		for _, o := range ops {
			if o.Process == f.process && o.Called < w.To {
				return true
			}
		}
	}
	for _, o := range ops {
		if r.history.Idle(o.Process, w.From, w.To) && o.Called < w.To {
			return true
		}
	}
	return false
}

// spans returns when each name was in use.
func (r *round) spans() map[string][2]int64 {
	spans := map[string][2]int64{}
	for _, o := range r.history.Operations {
		s, ok := spans[o.Name]
		if !ok {
			s[0] = o.Called
		}
		s[0] = min(s[0], o.Called)
		for _, t := range []int64{o.Called, o.Granted, o.Failed, o.Unlocked, o.Told} {
			if t != history.Never {
				s[1] = max(s[1], t)
			}
		}
		spans[o.Name] = s
	}
	return spans
}

// covered says that a fault may have taken a lock of that name away while it was
// in use.
func (r *round) covered(name string, span [2]int64) bool {
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(name) && w.from <= span[1] && w.to+int64(longestTTL) >= span[0]
	})
}
