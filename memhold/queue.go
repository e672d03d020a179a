package memhold

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// presence is how long a fair claim that is not tried again keeps its place.
const presence = 5 * time.Second

// place is the place of a fair claim in the queue. woken is closed when another try of the
// claim may be granted, or when the claim has lost its place.
type place struct {
	owner string
	note  string
	mode  driver.Mode
	until time.Time
	woken chan struct{}
}

// position returns how many claims are before c. It adds c to the queue if c is not there yet,
// and extends the time for which c keeps its place.
func (e *resource) position(c driver.Claim, now time.Time) int {
	i := e.find(c.Owner)
	if i < 0 {
		i = len(e.queue)
		e.queue = append(e.queue, &place{owner: c.Owner, note: c.Note, mode: c.Mode, woken: make(chan struct{})})
	}
	p := e.queue[i]
	p.until = now.Add(presence)
	select {
	case <-p.woken: // the claim was woken for this try
		p.woken = make(chan struct{})
	default:
	}
	return i
}

// find returns the index of owner's place, or -1.
func (e *resource) find(owner string) int {
	return slices.IndexFunc(e.queue, func(p *place) bool { return p.owner == owner })
}

// leave removes the place of `owner` from the queue.
func (e *resource) leave(owner string) {
	e.dequeue(func(p *place) bool { return p.owner == owner })
}

// dequeue removes from the queue the places for which the function `gone` returns true. It
// wakes their claims, because a claim that still waits needs a new place. If the queue then has
// another first claim, dequeue wakes that claim, too.
func (e *resource) dequeue(gone func(*place) bool) {
	if len(e.queue) == 0 {
		return
	}
	first := e.queue[0]
	e.queue = slices.DeleteFunc(e.queue, func(p *place) bool {
		if !gone(p) {
			return false
		}
		p.wake()
		return true
	})
	if len(e.queue) > 0 && e.queue[0] != first {
		e.wakeFirst()
	}
}

// wakeFirst wakes the first claim in the queue.
func (e *resource) wakeFirst() {
	if len(e.queue) > 0 {
		e.queue[0].wake()
	}
}

func (p *place) wake() {
	select {
	case <-p.woken:
	default:
		close(p.woken)
	}
}
