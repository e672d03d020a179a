package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// What a judge lets pass.
const (
	// wakeLimit is how long a free lock may not be taken although somebody waits
	// and nothing is broken: the cap of a sleep, and time to do it.
	wakeLimit = 1500 * time.Millisecond
	// calmLimit is that for a Mutex on Redis while nothing is broken for anybody: see "is free
	// and somebody waits for it" in docs/guarantees.md. It has to be shorter than the second after
	// which a waiter asks again.
	calmLimit = 300 * time.Millisecond
	// calmStoreLimit is that for the other stores: in a database a claim may have to wait for the
	// turn of another that has just given up.
	calmStoreLimit = 900 * time.Millisecond
	// hangsAfter is how long the store may let a call wait until that counts as a fault.
	hangsAfter = 200 * time.Millisecond
	// splitLimit is how much longer that may be where votes are counted: an attempt
	// may fail although nobody holds the lock, and nobody is notified of that.
	splitLimit = time.Second
	// afterFault is for how long a fault is still felt after its end: back-off,
	// connections that are made again.
	afterFault = 2 * time.Second
	// modelLimit bounds the model checker for one name.
	modelLimit = 15 * time.Second
	// ownTime is what a process may need to tell its holders when it runs again.
	ownTime = 5 * time.Millisecond
	// overdueSlack is how much later than Lock.Err a context may tell, as long as
	// nobody was granted the lock in between: on a machine that is wanted by others
	// a timer is that late, and no watch of the process sees it.
	overdueSlack = 250 * time.Millisecond
	// fairPlace is for how long the others in the queue of a fair lock pass nobody
	// who does not say that it is still there, as Redisson has it.
	fairPlace = 5 * time.Second
)

// round is what is known of one round.
type round struct {
	history *judge.History
	windows []window
	fencing bool
	places  bool // the store knows the waiters, and keeps a free name for the first of them
	undoes  bool // a call that arrives late may take a lock, and is undone a second later
	queues  bool // a waiter has a place, also for locks that are not fair
	passes  bool // a TryLock that is refused has a place too, for a moment

	calmLimit time.Duration // how soon a free Mutex is taken while nothing is broken; 0 if that is not judged
}

// verdict is what judging a round brought.
type verdict struct {
	violations []*judge.Violation
	explained  int // overlaps that a fault which loses writes explains
	swept      judge.Sweep
	judged     judge.Judgement
	losses     []judge.Loss
	early      []time.Duration // how long before the next grant they were notified
	late       int             // notified after it, and not explained
	notices    []string        // of these
	tooLate    int             // notified after it, and explained
	longest    time.Duration   // wait while nothing was broken
	quiet      int             // waits that were measured
	excused    int             // waits that were not, as something was broken
	covered    int             // operations that the model did not judge, for a fault that loses writes
	refused    int             // writes that the fence refused
	stale      int             // writes that undid another, and are explained

	longestCalm time.Duration // wait for a Mutex while nothing was broken for anybody
	calm        int           // such waits that were measured
}

// judge applies all checks. What excuses a violation:
//
//   - Two holders at once, or a write that undid another, are explained if a
//     fault that may lose writes took the first one's lock away: the fault covers
//     the name, the first had asked before the last write that could be lost (its
//     answer may have come after), the second was granted the lock after the fault
//     had begun, and the two ended to hold at once before one lease of the first
//     had passed since that write, or since another server took over.
//   - A write that undid another is also explained if the process that wrote was
//     stopped, or had no processor, between its read and its write, and by its own
//     clock or its context held the lock no more when it wrote: no lock protects
//     from that; a fence does.
//   - A context may tell of a loss as late as overdueSlack after Lock.Err does,
//     which is right at once, if nobody was granted the lock in between; how late it
//     was is in the summary. Contexts that ended after the next grant are counted:
//     more than a few are a violation.
//   - Of permits it is not known whose was given away. A fault that took one
//     holder's explains the next grant beside all of them.
//   - The same fault explains that a holder whose lock was taken away is notified of its
//     grant, with its smaller token, after the next one.
//   - It also explains that such a holder passes its lock on within its process, to
//     somebody who asked after the next grant, and who gets a smaller token. Nothing
//     else explains a token that is not larger than that of a grant which was known
//     before the lock was asked for.
//   - Nothing explains a lost update at the fenced register, or a belief past its
//     deadline.
//   - The model judges exclusive locks that no such fault has touched, of stores
//     with tokens: a quorum may say busy when votes are split. Where the store keeps a
//     free name for a waiter, TryLock may say busy although nobody holds it; where
//     a TryLock has a place before it is refused, also for the sake of another TryLock.
//     Where the store undoes a late call, an operation of which a call had no answer may
//     have the lock for a moment after it has ended; elsewhere also, if its lease ended by
//     itself or it was refused.
//   - Waiting is judged where nothing was broken for the one who waited and for
//     all others who might have had to do with that name, and always from
//     afterFault after the last fault of the round on. A release that the store
//     may have forgotten leaves the lock held for one more lease.
func (r *round) judge() verdict {
	var v verdict
	v.swept = r.history.Check(judge.Rules{Permits: permits, Tokenless: !r.fencing})
	for _, found := range v.swept.Violations {
		switch {
		case found.Kind == judge.Overlap && (r.explains(found) || found.B.Side == judge.Permit && r.explainsPermits(found)):
			v.explained++
			continue
		case found.Kind == judge.Order && r.explainsOrder(found), found.Kind == judge.Token && r.explainsToken(found):
			continue
		}
		v.violations = append(v.violations, found)
	}
	v.violations = append(v.violations, r.history.Overdue(overdueSlack)...)
	r.judgeLosses(&v)
	r.judgeUpdates(&v)
	r.markLate()
	r.markOutages()
	r.judgeWaits(&v)
	spans := r.spans()
	r.reserve()
	r.markChains()
	r.markSessions()
	v.judged = r.history.Linearizable(modelLimit, func(name string) bool {
		if !r.fencing || !strings.HasPrefix(name, mutexes+":") && !strings.HasPrefix(name, chains+":") {
			return false
		}
		if r.covered(name, spans[name]) {
			v.covered++
			return false
		}
		return true
	})
	v.violations = append(v.violations, v.judged.Violations...)
	return v
}

// explains says whether a fault that loses writes explains two holders.
func (r *round) explains(found *judge.Violation) bool {
	first, second := inOrder(found.A, found.B)
	lease := first.Lease + int64(judge.NoticeSlack)
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(found.Name) && first.Called <= w.lost && second.Granted >= w.from && found.To <= max(w.lost, w.switched)+lease
	})
}

// inOrder returns two operations in the order in which the store granted them, by
// their tokens if there are any: the answers may have come in another.
func inOrder(a, b *judge.Operation) (first, second *judge.Operation) {
	switch {
	case a.Token > b.Token, a.Token == b.Token && a.Granted > b.Granted:
		return b, a
	default:
		return a, b
	}
}

// explainsOrder says whether a fault that loses writes explains that B was granted
// after A, but has the smaller token. It does if these conditions hold:
//
//   - A was granted after the fault had begun.
//   - B asked before the last write that the fault could lose.
//   - B was granted at most one lease after that write, or after another server
//     took over. It takes so long if B was not notified in time.
func (r *round) explainsOrder(found *judge.Violation) bool {
	lease := found.B.Lease + int64(judge.NoticeSlack)
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(found.Name) && found.A.Granted >= w.from && found.B.Called <= w.lost && found.B.Granted <= max(w.lost, w.switched)+lease
	})
}

// explainsToken says whether a fault that loses writes explains that B asked after A was granted,
// but has the smaller token. It does if B got its lock from another holder of its process, and
// explainsOrder is true of the one of them that asked the store.
func (r *round) explainsToken(found *judge.Violation) bool {
	asked := found.B
	for {
		before := slices.IndexFunc(r.history.Operations, func(o judge.Operation) bool {
			return o.Name == asked.Name && o.Process == asked.Process && o.Token == asked.Token-1 && o.Unlock <= asked.Granted
		})
		if before < 0 {
			break
		}
		asked = &r.history.Operations[before]
	}
	if asked == found.B {
		return false
	}
	passedOn := *found.B
	passedOn.Called = asked.Called
	return r.explainsOrder(&judge.Violation{Name: found.Name, A: found.A, B: &passedOn})
}

// explainsPermits says the same of the later of two permits that overlap: the
// sweep names any two of those that are out.
func (r *round) explainsPermits(found *judge.Violation) bool {
	_, second := inOrder(found.A, found.B)
	return r.explainsPermit(second)
}

// explainsPermit says whether a fault that loses writes had taken the permit of
// somebody who held one when next was granted another.
func (r *round) explainsPermit(next *judge.Operation) bool {
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		if o == next || o.Name != next.Name || o.Granted == judge.Never || o.Granted > next.Granted || o.Ended() <= next.Granted {
			continue
		}
		if r.explains(&judge.Violation{Name: o.Name, A: o, B: next, At: next.Granted, To: next.Granted}) {
			return true
		}
	}
	return false
}

func (r *round) judgeLosses(v *verdict) {
	v.losses = r.history.Losses(permits)
	for _, l := range v.losses {
		switch {
		case l.Next == nil:
			continue
		case l.Early > 0 || l.Early == 0 && l.Notified <= l.Next.Granted:
			v.early = append(v.early, l.Early)
			continue
		case l.Early > -ownTime && r.history.Idle(l.Process, min(l.Due, l.Next.Granted), l.Notified): // it was notified when it ran again
			continue
		}
		found := &judge.Violation{
			// Lock.Err said it at Ended. Overdue judges how late the context was.
			Kind: judge.Untold, At: l.Next.Granted, To: l.Ended(), Name: l.Name, A: l.Operation, B: l.Next,
			Text: fmt.Sprintf("process %d op %d was notified of the loss of %q %v after process %d op %d was granted it", l.Process, l.Op, l.Name, -l.Early, l.Next.Process, l.Next.Op),
		}
		if r.explains(found) || l.Side == judge.Permit && r.explainsPermit(l.Next) {
			v.tooLate++
			continue
		}
		v.late++
		v.notices = append(v.notices, found.Text)
		if l.Early < -judge.NoticeSlack || l.Ended() > l.Next.Granted+int64(judge.NoticeSlack) {
			v.violations = append(v.violations, found)
		}
	}
}

func (r *round) judgeUpdates(v *verdict) {
	plain, fenced, refused := r.history.Registers()
	v.refused = refused
	for _, found := range plain {
		over := min(found.B.Due, found.B.Lost) < found.B.Wrote
		both := *found
		both.To = min(found.To, found.A.Ended(), found.B.Ended()) // until when both held it: the second may have written much later
		if r.explains(&both) || over && r.history.Idle(found.B.Process, found.B.Read, found.B.Wrote) {
			v.stale++
			continue
		}
		v.violations = append(v.violations, found)
	}
	if r.fencing {
		v.violations = append(v.violations, fenced...)
	}
}

// kindOf returns the workload to which a name belongs.
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	return kind
}

// waited says that somebody waited for one of those locks by itself.
func waited(name string) bool { return !strings.HasPrefix(name, lockAlls+":") }

func (r *round) judgeWaits(v *verdict) {
	byName := map[string][]*judge.Operation{}
	for i := range r.history.Operations {
		o := &r.history.Operations[i]
		o.Removed = o.Failed != judge.Never && !o.Outage && !o.Late && r.history.Silence(o.Called, o.Failed+int64(judge.RemovedWithin)) == 0
		o.Forgotten = o.Unlocked != judge.Never && r.covered(o.Name, span{o.Unlock, o.Unlocked})
		byName[o.Name] = append(byName[o.Name], o)
	}
	calm, fairCalm := r.calm()
	fair := func(name string) bool { return r.queues || strings.HasPrefix(name, fairs+":") }
	seen := map[*judge.Operation]bool{}
	for _, w := range slices.Concat(
		r.history.Waits(calm, func(name string) bool { return waited(name) && !fair(name) }),
		r.history.Waits(fairCalm, fair),
	) {
		seen[w.Operation] = true
		r.measure(v, w, r.history.Awake(w.Process, w.From, w.To))
		if r.calmLimit > 0 && slices.Contains([]string{mutexes, chains, bursts}, kindOf(w.Name)) {
			r.measureCalm(v, w)
		}
	}
	for _, w := range r.history.Waits(0, waited) {
		switch {
		case seen[w.Operation]:
		case r.disturbed(w, byName[w.Name]):
			v.excused++
		default: // beside a fault that breaks the links of others, their calls wait, too
			r.measure(v, w, r.history.Ran(w.Process, w.From, w.To))
		}
	}
}

// measure judges how long w was, without the time in which the process did not
// run. In the calm `ran` is also without the time in which the store let a call wait.
func (r *round) measure(v *verdict, w judge.Wait, ran time.Duration) {
	v.quiet++
	v.longest = max(v.longest, ran)
	limit := wakeLimit
	if !r.fencing {
		limit += splitLimit
	}
	if ran > limit {
		v.violations = append(v.violations, r.sleeping(w, ran))
	}
}

// sleeping returns the violation that a free lock was not taken for the time `ran`.
func (r *round) sleeping(w judge.Wait, ran time.Duration) *judge.Violation {
	return &judge.Violation{
		Kind: judge.Sleeping, At: w.To, To: w.To, Name: w.Name, A: w.Operation,
		Text: fmt.Sprintf("%q was free for %v while process %d op %d waited for it and nothing was broken", w.Name, ran, w.Process, w.Op),
	}
}

// measureCalm judges a wait for a Mutex beside which nothing was broken. The time does not count
// in which any process did not run, or in which the store let a call wait. If the store hangs for
// longer, calls end and connections are made again, as after a fault.
func (r *round) measureCalm(v *verdict, w judge.Wait) {
	if r.history.Silence(w.From-int64(afterFault), w.To) > hangsAfter {
		return
	}
	v.calm++
	ran := r.history.Awake(judge.Any, w.From, w.To)
	v.longestCalm = max(v.longestCalm, ran)
	if ran > r.calmLimit {
		v.violations = append(v.violations, r.sleeping(w, ran))
	}
}

// calm returns from when on nothing was broken any more; for fair locks the place
// of one who was stopped or killed in the queue counts too.
func (r *round) calm() (at, fair int64) {
	for _, w := range r.windows {
		at = max(at, w.to+int64(afterFault))
		fair = max(fair, at)
		if w.process >= 0 || r.queues { // a server that comes back counts all leases again
			fair = max(fair, w.to+int64(fairPlace))
		}
	}
	return at, fair
}

// disturbed says that something was broken which may have kept w waiting.
func (r *round) disturbed(w judge.Wait, ops []*judge.Operation) bool {
	felt := int64(afterFault)
	if r.queues {
		felt = int64(fairPlace)
	}
	for _, f := range r.windows {
		if f.to+felt < w.From-int64(longestTTL) || f.from > w.To {
			continue
		}
		if f.process < 0 && f.to+felt >= w.From {
			return true
		}
		for _, o := range ops {
			if o.Process == f.process && o.Called < w.To && o.Gone() > w.From {
				return true
			}
		}
	}
	return false
}

// span is when a name was in use.
type span struct{ from, to int64 }

// spans returns when each name was in use.
func (r *round) spans() map[string]span {
	spans := map[string]span{}
	for _, o := range r.history.Operations {
		s, ok := spans[o.Name]
		if !ok {
			s.from = o.Called
		}
		s.from = min(s.from, o.Called)
		for _, t := range []int64{o.Called, o.Granted, o.Failed, o.Unlocked, o.Notified} {
			if t != judge.Never {
				s.to = max(s.to, t)
			}
		}
		spans[o.Name] = s
	}
	return spans
}

// covered says that a fault may have taken a lock of that name away while it was
// in use. A name that was first asked for after the last write that could be lost
// has lost nothing.
func (r *round) covered(name string, s span) bool {
	return slices.ContainsFunc(r.windows, func(w window) bool {
		return w.covers(name) && w.from <= s.to && w.lost >= s.from
	})
}
