package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
)

// Handoff bounds how long a lock may go from one goroutine to another of the same
// Locker before it goes back to the store, where other processes wait for it.
// Within these bounds an Unlock gives it to the goroutine that has waited
// longest, without a call to the store and with the next of the fencing tokens
// that were reserved when the store granted it. Only exclusive locks that are
// neither fair nor read-write are handed on, and none with a Lease of its own.
//
// In the store the lock keeps the owner of the first holder.
type Handoff struct {
	// Max is how often a lock is handed on before it goes back. Default and most is
	// 1024; negative to hand on none. A queue begins with 64, and twice as many each
	// time that they are used up: tokens that nobody needs are not reserved.
	Max int

	// For is how long after the store granted it a lock is still handed on. A
	// holder keeps it for as long as it wants. Default 50ms.
	For time.Duration
}

const (
	defaultHandoffMax = 1024
	defaultHandoffFor = 50 * time.Millisecond

	// handoffMost bounds Max: so many tokens are drawn with a grant, and they must
	// not run ahead of the clock that they start from.
	handoffMost = 1024

	// handoffFirst is how often a lock is handed on where nothing is known of the
	// queue yet.
	handoffFirst = 64
)

// withDefaults fills in what is zero, and bounds what the store bounds: each holder
// has a token of its own.
func (o Handoff) withDefaults(info driver.Info) Handoff {
	if o.Max == 0 {
		o.Max = defaultHandoffMax
	}
	o.Max = min(o.Max, handoffMost)
	if most := info.MaxTokens; most > 0 && info.Caps.Fencing {
		o.Max = min(o.Max, most-1)
	}
	if o.For == 0 {
		o.For = defaultHandoffFor
	}
	return o
}

// takesHolds says that the claim may be given a hold of this process in place of
// one of its own.
func (a *acquisition) takesHolds() bool {
	return a.kind == plain && !a.req.leased && a.locker.handoff.Max > 0
}

// handOn gives the lease to the next goroutine in the queue, if there is one and
// it has not been handed on for too long. It returns false, and has changed
// nothing, if not.
func (h *hold) handOn() bool {
	l := h.lease
	return l.gate != nil && l.kind == plain && !l.fixed && l.gate.pass(l, h)
}

// replace ends h and returns the hold that follows it, and h's contexts, or nil
// if the lease has to go back to the store. gates.mu is held.
func (l *lease) replace(h *hold) (next *hold, contexts map[*derived]struct{}) {
	now, bounds := l.locker.clock.Read(), l.locker.handoff
	l.mu.Lock()
	defer l.mu.Unlock()
	switch left := l.deadline - now.Mono; {
	case h.err != nil || l.holds != 1,
		l.turnsLeft == 0 || now.Mono-l.first.since >= bounds.For,
		left < (l.ttl-l.locker.margin)/2 || l.suspended(now): // as a grant that comes so late is not kept
		return nil, nil
	}
	l.turns++
	l.turnsLeft--
	next = &hold{lease: l, since: now.Mono}
	if l.fenced {
		next.token = h.token + 1
	}
	h.err = ErrUnlocked
	contexts, h.contexts = h.contexts, nil
	l.holder = next
	return next, contexts
}

// turnsNext is for how many turns to reserve tokens where the last block served
// used of them, and left were left. Tokens come from the server's clock in µs, and
// a turn takes longer than that: those that are used cannot run ahead of it, but
// those that are not used could.
func (o Handoff) turnsNext(used, left int32) int {
	want := int(used)
	if left == 0 {
		want *= 2
	}
	return min(max(want, handoffFirst), o.Max)
}

// decline gives back a hold that nobody wants any more, to the next in the queue
// or to the store.
func (h *hold) decline() {
	if !h.handOn() {
		h.lease.locker.background.Go(func() { _ = h.unlock(new(deadline.Context)) })
	}
}
