package judge

import (
	"cmp"
	"slices"
	"time"
)

// Wait is a time in which a lock was certainly free while somebody waited for
// it.
type Wait struct {
	*Operation // who waited
	From, To   int64
}

// Duration returns how long it was.
func (w Wait) Duration() time.Duration { return time.Duration(w.To - w.From) }

// RemovedWithin is how long after a call has given up its claim may keep others from the lock, if
// nothing is broken.
const RemovedWithin = 100 * time.Millisecond

// Waits returns the longest such time of each waiter that began later than since, on the
// names that accept accepts. It ends when somebody gets the lock, or when the waiter gives up. It
// considers only locks that no operation holds or may hold, as far as is known.
func (h *History) Waits(since int64, accept func(name string) bool) (waits []Wait) {
	byName := map[string][]*Operation{}
	for i := range h.Operations {
		if o := &h.Operations[i]; accept(o.Name) {
			byName[o.Name] = append(byName[o.Name], o)
		}
	}
	for _, list := range byName {
		waits = append(waits, waitsFor(list, since)...)
	}
	return waits
}

// waitsFor walks over the grants of one name.
func waitsFor(list []*Operation, since int64) []Wait {
	slices.SortFunc(list, func(a, b *Operation) int { return cmp.Compare(a.Called, b.Called) })
	longest := map[*Operation]Wait{}
	for _, e := range list {
		end := min(e.Granted, e.Failed)
		if end == Never || !e.held() && e.Try {
			continue
		}
		free := int64(0)
		for _, o := range list {
			if o != e && o.Answered() <= end {
				free = max(free, o.Gone())
			}
		}
		for _, v := range list {
			if v.Try || v.Called >= end || v.Answered() < end || !e.held() && v != e {
				continue
			}
			w := Wait{v, max(free, v.Called, since), end}
			if w.Duration() > longest[v].Duration() || longest[v].Operation == nil && w.To > w.From {
				longest[v] = w
			}
		}
	}
	waits := make([]Wait, 0, len(longest))
	for _, o := range list {
		if w, ok := longest[o]; ok {
			waits = append(waits, w)
		}
	}
	return waits
}

// Answered returns when the call returned, or the process was killed.
func (o *Operation) Answered() int64 { return min(o.Granted, o.Failed, o.Killed) }

// Gone returns from when on the store certainly keeps nothing of the operation:
// what was not confirmed ends with its lease.
func (o *Operation) Gone() int64 {
	switch {
	case o.held() && o.Unlocked != Never && o.UnlockErr == "" && !o.Forgotten:
		return o.Unlocked
	case o.held():
		end := min(o.Unlock, o.Notified, o.Killed)
		if o.Forgotten {
			end = o.Unlocked // it may have been renewed meanwhile
		}
		if end != Never {
			return end + o.Lease
		}
		return Never
	case o.Failed != Never && o.Failure == "busy" && o.Try:
		return o.Failed
	case o.Failed != Never && o.Removed:
		return o.Failed + int64(RemovedWithin)
	case o.Failed != Never:
		return o.Failed + o.Lease
	case o.Killed != Never:
		return o.Killed + o.Lease
	default: // still waiting: it has nothing
		return 0
	}
}
