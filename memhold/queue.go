package memhold

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// presence is how long a fair claim that is not tried again keeps its place.
const presence = 5 * time.Second

// place is a fair claim in the queue. turn is closed when it is worth while to
// try again.
type place struct {
	owner string
	note  string
	mode  driver.Mode
	until time.Time
	turn  chan struct{}
}

// line returns how many claims are before c, which queues up if it has not yet,
// and shows that it is present.
func (e *entry) line(c driver.Claim, now time.Time) int {
	i := e.find(c.Owner)
	if i < 0 {
		i = len(e.queue)
		e.queue = append(e.queue, &place{owner: c.Owner, note: c.Note, mode: c.Mode, turn: make(chan struct{})})
	}
	p := e.queue[i]
	p.until = now.Add(presence)
	select {
	case <-p.turn: // this try is what it was called for
		p.turn = make(chan struct{})
	default:
	}
	return i
}

// find returns the index of owner's place, or -1.
func (e *entry) find(owner string) int {
	return slices.IndexFunc(e.queue, func(p *place) bool { return p.owner == owner })
}

// leave takes owner out of the queue.
func (e *entry) leave(owner string) {
	e.dismiss(func(p *place) bool { return p.owner == owner })
}

// dismiss takes those out of the queue whom gone selects. They are called, for
// if they wait, they have to queue up again; and so is the first one now.
func (e *entry) dismiss(gone func(*place) bool) {
	if len(e.queue) == 0 {
		return
	}
	first := e.queue[0]
	e.queue = slices.DeleteFunc(e.queue, func(p *place) bool {
		if !gone(p) {
			return false
		}
		p.call()
		return true
	})
	if len(e.queue) > 0 && e.queue[0] != first {
		e.call()
	}
}

// call asks the first of the queue to try.
func (e *entry) call() {
	if len(e.queue) > 0 {
		e.queue[0].call()
	}
}

func (p *place) call() {
	select {
	case <-p.turn:
	default:
		close(p.turn)
	}
}
