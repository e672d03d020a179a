package judge

import (
	"cmp"
	"slices"
	"time"
)

// Operation is all that is known of one acquisition. Instants are wall clock
// nanoseconds, Never if they did not come.
type Operation struct {
	Process int
	Op      int64
	Name    string
	Side    Side
	Lease   int64
	Fixed   bool
	Try     bool
	Token   uint64
	Left    int64 // of the lease, when the grant was answered
	Kept    int64 // how long the store kept it for certain when it was granted, if not for the Lease; else 0

	Called             int64
	Granted, Failed    int64
	Unlock, Unlocked   int64
	Lost               int64 // notified by a context, or known from the clock
	Notified           int64 // notified by a context
	Failure, UnlockErr string
	Reason             string // of the loss
	Killed             int64

	Read, Wrote int64 // what the lock protects

	Proven int64 // when the store last confirmed the hold, as far as it was written down
	Due    int64 // when the lock counts as lost by the holder's own clock if it is not renewed again

	// Forgotten says that the store may have forgotten the release: the lock may
	// then be held for one more lease. The test that makes faults sets it.
	Forgotten bool

	// Removed says that nothing was broken when the call failed, so that its claim was removed
	// from the store soon. The test that makes faults sets it.
	Removed bool

	// Reserved says that the name may have been kept for another who waited, so that
	// "busy" needs no holder. The test of a store with places sets it.
	Reserved bool

	// Late says that a call of the operation had no answer, so that the store may grant it
	// after the operation has ended, and undo that. The test of a store which cannot refuse
	// a late call sets it.
	Late bool

	// Released says that the end of a Fixed lease is a release by the holder's process,
	// which counts from before it asked: the store may grant the name again before it has
	// kept it for the Lease. The test of a store with sessions sets it.
	Released bool

	// Outage says that a server, or the way to it, was broken for some of the time, so that
	// calls may have no answer. The test that makes faults sets it.
	Outage bool

	stalled int64 // for how long the process did not run between Due and Notified
}

// NoticeSlack is how much later than Lock.Err a context may tell of a loss, without
// the time in which the process did not run. A timer is that late on a machine
// whose processors are wanted by others: a thread that the system has put aside
// keeps its timers with it, and no watch of the process sees it.
const NoticeSlack = 50 * time.Millisecond

// Ended returns when the holder stopped to consider itself the holder.
// Lock.Err compares clocks and is right at once, so a context that is a little
// late does not prolong a belief.
func (o *Operation) Ended() int64 {
	lost := o.Lost
	if o.Due < lost && lost-o.Due-o.stalled <= int64(NoticeSlack) {
		lost = o.Due
	}
	return min(o.Unlock, lost, o.Killed)
}

// held says that the lock was granted.
func (o *Operation) held() bool { return o.Granted != Never }

// History is what all processes reported, in the order of time.
type History struct {
	Events     []Event
	Operations []Operation
	pauses     []pause
	idle       []pause // also those in which it was not stopped, but had no processor
	silent     []Span  // in which the store let a call wait
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

// New puts together what several processes reported.
func New(events []Event) *History {
	h := &History{Events: slices.Clone(events)}
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	type key struct {
		process int
		op      int64
	}
	at := map[key]int{}
	killed, stopped := map[int]int64{}, map[int]int64{}
	for _, e := range h.Events {
		i, known := at[key{e.Process, e.Op}]
		switch {
		case e.What == Killed:
			killed[e.Process] = e.At
		case e.What == Paused:
			stopped[e.Process] = e.At
		case e.What == Resumed:
			p := pause{e.Process, stopped[e.Process], e.At}
			h.pauses = append(h.pauses, p)
			h.idle = append(h.idle, pause{p.process, p.from, p.to + pauseGrace})
		case e.What == Stalled:
			h.idle = append(h.idle, pause{e.Process, e.At - e.Left, e.At})
		case e.What == Silent:
			h.silent = append(h.silent, Span{e.At - e.Left, e.At})
		case e.What == Called:
			at[key{e.Process, e.Op}] = len(h.Operations)
			h.Operations = append(h.Operations, called(e))
		case known:
			h.Operations[i].add(e)
		}
	}
	h.idle, h.silent = merged(h.idle), Union(h.silent)
	for i := range h.pauses { // a process that is resumed may get no processor at once
		h.pauses[i].to = h.until(h.pauses[i])
	}
	for i := range h.Operations {
		o := &h.Operations[i]
		if t, dead := killed[o.Process]; dead {
			o.Killed = t
		}
		if o.Notified != Never && o.Due < o.Notified {
			o.stalled = o.Notified - o.Due - int64(h.Ran(o.Process, o.Due, o.Notified))
		}
	}
	return h
}

// until returns when a process that was stopped ran again for certain.
func (h *History) until(p pause) int64 {
	for _, i := range h.idle {
		if i.process == p.process && i.from <= p.from && i.to >= p.to {
			return i.to
		}
	}
	return p.to + pauseGrace
}

// merged makes one of pauses of a process that overlap.
func merged(pauses []pause) (all []pause) {
	slices.SortFunc(pauses, func(a, b pause) int { return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.from, b.from)) })
	for _, p := range pauses {
		if n := len(all); n > 0 && all[n-1].process == p.process && all[n-1].to >= p.from {
			all[n-1].to = max(all[n-1].to, p.to)
		} else {
			all = append(all, p)
		}
	}
	return all
}

func called(e Event) Operation {
	return Operation{
		Process: e.Process, Op: e.Op, Name: e.Name, Side: e.Side, Lease: e.Lease, Fixed: e.Fixed, Try: e.Try, Called: e.At,
		Granted: Never, Failed: Never, Unlock: Never, Unlocked: Never, Lost: Never, Notified: Never, Killed: Never, Due: Never,
		Read: Never, Wrote: Never,
	}
}

func (o *Operation) add(e Event) {
	switch e.What {
	case Granted:
		o.Granted, o.Token, o.Proven = e.At, e.Token, e.At
		if o.Fixed { // Lock.Err is right at that instant; a context may end late
			o.Lost = e.At + e.Left
		}
		if o.Left = max(e.Left, 1); e.Given {
			o.Kept = o.Left
		}
		if e.Watched || o.Fixed {
			o.Due = e.At + e.Left
		}
	case Renewed:
		o.Proven = e.At
		if !o.Fixed && e.Left > 0 {
			o.Due = e.At + e.Left
		}
	case Failed:
		o.Failed, o.Failure = e.At, e.Err
	case Unlock:
		o.Unlock = e.At
	case Unlocked:
		o.Unlocked, o.UnlockErr = e.At, e.Err
	case Read:
		o.Read = e.At
	case Wrote:
		o.Wrote = e.At
	case Lost:
		o.Lost, o.Notified, o.Reason = min(o.Lost, e.At), e.At, e.Err
	}
}

// belief is a time in which a holder believed that it holds a lock.
type belief struct {
	*Operation
	from, to int64
}

// beliefs returns them by name, in the order of time.
func (h *History) beliefs() map[string][]belief {
	all := map[string][]belief{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if !o.held() {
			continue
		}
		from, to := o.Granted, o.Ended()
		for _, p := range h.pauses {
			if p.process != o.Process || p.from >= to || p.to <= from {
				continue
			}
			if from < p.from {
				all[o.Name] = append(all[o.Name], belief{o, from, p.from})
			}
			from = p.to
		}
		if from < to {
			all[o.Name] = append(all[o.Name], belief{o, from, to})
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}
