package judge

import (
	"cmp"
	"slices"
	"time"
)

// Loss is a loss that a holder was notified of by its context.
type Loss struct {
	*Operation
	Late  time.Duration // from the instant when Lock.Err said so to the context, without the time in which the process did not run
	Next  *Operation    // who got the lock next, of those it kept out; nil if nobody did
	Early time.Duration // from the context to that grant; negative if it came too late, without the time in which the process did not run
}

// Losses returns all losses, by the time at which they were notified. A permit keeps
// out any other client while all others of permits are held.
func (h *History) Losses(permits int) []Loss {
	byName := map[string][]*Operation{}
	for i := range h.Operations {
		if o := &h.Operations[i]; o.held() {
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	var losses []Loss
	for _, list := range byName {
		slices.SortFunc(list, func(a, b *Operation) int { return cmp.Compare(a.Granted, b.Granted) })
		for i, o := range list {
			if o.Notified == Never || o.Killed < o.Notified {
				continue
			}
			l := Loss{Operation: o}
			if o.Due < o.Notified {
				l.Late = h.Ran(o.Process, o.Due, o.Notified)
			}
			keepsOut := func(b *Operation) bool {
				return b.Side.Alone() || o.Side.Alone() || o.Side == Permit && full(list, o, b, permits)
			}
			if n := slices.IndexFunc(list[i+1:], keepsOut); n >= 0 {
				l.Next = list[i+1+n]
				l.Early = time.Duration(l.Next.Granted - o.Notified)
				if l.Early < 0 {
					l.Early = -h.Ran(o.Process, l.Next.Granted, o.Notified)
				}
			}
			losses = append(losses, l)
		}
	}
	slices.SortFunc(losses, func(a, b Loss) int { return cmp.Compare(a.Notified, b.Notified) })
	return losses
}

// full says that o's permit was the last one when b was granted another: it would
// be one too many beside it.
func full(list []*Operation, o, b *Operation, permits int) bool {
	held := 2
	for _, other := range list {
		if other != o && other != b && other.Granted <= b.Granted && other.Ended() > b.Granted {
			held++
		}
	}
	return held > permits
}

// Overdue returns the holders that believed in their lock past its deadline: by
// their own clock (Lock.Remaining), and past the lease that began with the last
// confirmation by the store. slack is how late a context may tell; NoticeSlack is
// a good value.
func (h *History) Overdue(slack time.Duration) (found []*Violation) {
	for i := range h.Operations {
		o := &h.Operations[i]
		end := min(o.Notified, o.Unlock, o.Killed)
		if !o.held() || end == Never {
			continue
		}
		if o.Due < end && o.Due != Never {
			if late := h.Ran(o.Process, o.Due, end); late > slack {
				found = append(found, h.violation(Late, end, o, nil, "believed in %q for %v after its deadline", o.Name, late))
				continue
			}
		}
		if over := o.Proven + o.Lease; o.Lease > 0 && over < end {
			if late := h.Ran(o.Process, over, end); late > slack {
				found = append(found, h.violation(Late, end, o, nil, "believed in %q for %v after the end of its lease", o.Name, late))
			}
		}
	}
	return found
}

// Ran returns for how long of a time a process ran: it may have been stopped, or
// have had no processor.
func (h *History) Ran(process int, from, to int64) time.Duration {
	idle := int64(0)
	for _, p := range h.idle {
		if p.process == process {
			idle += max(0, min(to, p.to)-max(from, p.from))
		}
	}
	return time.Duration(max(0, to-from-idle))
}

// Any is every process.
const Any = -1

// Awake returns for how long of a time a process ran, and the store let no call wait. For Any it
// is the time in which all processes ran.
func (h *History) Awake(process int, from, to int64) time.Duration {
	not := slices.Clone(h.silent)
	for _, p := range h.idle {
		if (process == Any || process == p.process) && p.from < to && p.to > from {
			not = append(not, Span{p.from, p.to})
		}
	}
	return Span{from, to}.Without(Union(not))
}

// Silence returns the longest time in which the store let calls wait, of those that have a part
// in a time. It returns 0 if there is none.
func (h *History) Silence(from, to int64) (longest time.Duration) {
	for _, s := range h.silent {
		if s.From < to && s.To > from {
			longest = max(longest, s.Duration())
		}
	}
	return longest
}

// Idle says that a process was stopped, or had no processor, for some of a time.
func (h *History) Idle(process int, from, to int64) bool {
	return h.Ran(process, from, to) < time.Duration(to-from)
}
