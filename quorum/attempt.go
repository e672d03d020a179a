package quorum

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// rememberFor is the shortest time for which tries of a claim that was given up are refused.
const rememberFor = 5 * time.Second

// claimID identifies a claim.
type claimID struct{ name, owner string }

func idOf(c driver.Claim) claimID { return claimID{c.Name, c.Owner} }

// attempt is the state of one claim at the nodes. If a try of the claim is refused, the Backend
// releases the grants that the attempt got, and the next try is another attempt with another
// owner. So a release of the first attempt that arrives late does not affect the next attempt.
type attempt struct {
	id     claimID
	owner  string        // at the nodes: the claim's owner and the number of the attempt
	trying chan struct{} // capacity 1: one Try at a time

	mu      sync.Mutex
	seats   []seat        // one for each node
	won     bool          // a majority granted it
	closed  bool          // it is being released: no further grant may be added
	changed chan struct{} // closed and replaced when another seat has ended
	expires time.Time     // the leases of the attempt at all nodes have expired by then
}

// seat is the state of an attempt at one node.
type seat struct {
	sem chan struct{} // capacity 1: one Try or Release at the node at a time

	held          bool      // the node granted the attempt, and has not reported the attempt as gone
	counts        bool      // renewals of this node count for the majority, see Renew
	heldFrom      time.Time // when the grant of the node arrived
	indeterminate bool      // a try ended without an answer, and may still arrive

	end ending
	err error // the error of the last Release, if its result is not certain
}

// ending is how a seat ended.
type ending int

const (
	pending  ending = iota // the seat has not ended, as far as is known
	unused                 // the node has nothing of the attempt, and no try is indeterminate
	released               // the node released the attempt
	lost                   // the node had nothing of the attempt any more
)

// current returns the attempt for a try of c, or an error if c was given up.
func (b *Backend) current(c driver.Claim) (*attempt, error) {
	now, id := time.Now(), idOf(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	if until, ok := b.ended[id]; ok && now.Before(until) {
		return nil, &driver.GoneError{Reason: driver.ReasonExpired, Detail: "the claim was given up before this try"}
	}
	a := b.open[id]
	if a == nil || a.isClosed() {
		b.number++
		a = newAttempt(id, b.number, len(b.nodes))
		b.open[id] = a
	}
	a.extend(now, c.TTL)
	return a, nil
}

func newAttempt(id claimID, number uint64, nodes int) *attempt {
	a := &attempt{
		id:      id,
		owner:   id.owner + "." + strconv.FormatUint(number, 36),
		trying:  make(chan struct{}, 1),
		seats:   make([]seat, nodes),
		changed: make(chan struct{}),
	}
	for i := range a.seats {
		a.seats[i].sem = make(chan struct{}, 1)
	}
	return a
}

// find returns the attempt of a claim, nil if there is none.
func (b *Backend) find(c driver.Claim) *attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[idOf(c)]
}

// forget drops an attempt that has ended.
func (b *Backend) forget(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[a.id] == a {
		delete(b.open, a.id)
	}
}

// giveUp records that later tries of c are refused: for the TTL, and for at least rememberFor.
func (b *Backend) giveUp(c driver.Claim) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	b.ended[idOf(c)] = now.Add(max(c.TTL, rememberFor))
}

// sweep drops attempts and entries of b.ended that have expired. If their number is N, sweep
// does so only once in N calls, so that a call checks one of them on average.
func (b *Backend) sweep(now time.Time) {
	b.calls++
	if b.calls <= len(b.open)+len(b.ended) {
		return
	}
	b.calls = 0
	for id, a := range b.open {
		if a.lapsed(now) {
			delete(b.open, id)
		}
	}
	for id, until := range b.ended {
		if !now.Before(until) {
			delete(b.ended, id)
		}
	}
}

// at returns c as the nodes know it: with the owner of the attempt, and with NoQueue.
func (a *attempt) at(c driver.Claim) driver.Claim {
	c.Owner = a.owner
	c.NoQueue = true // nodes may queue claims in different orders, so that the first waiters would wait for each other
	return c
}

// extend records that the nodes may keep the attempt for one TTL from the instant `now`, and
// longer by the drift of clocks.
func (a *attempt) extend(now time.Time, ttl time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := now.Add(ttl + 2*drift(ttl)); end.After(a.expires) {
		a.expires = end
	}
}

func (a *attempt) lapsed(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !now.Before(a.expires) && len(a.trying) == 0
}

// close records that the attempt is being released. It returns false if the attempt was closed
// before.
func (a *attempt) close() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := !a.closed
	a.closed = true
	return was
}

// isClosed reports whether the attempt is closed.
func (a *attempt) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// set changes a seat.
func (a *attempt) set(node int, change func(*seat)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.seats[node])
}

// seat returns a copy of a seat.
func (a *attempt) seat(node int) seat {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seats[node]
}

// finish records how a seat ended, and wakes the calls that wait for it.
func (a *attempt) finish(node int, end ending, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seats[node].end, a.seats[node].err = end, err
	close(a.changed)
	a.changed = make(chan struct{})
}

// acquireSem waits until it can send to sem, which has a capacity of 1. releaseSem receives
// from it.
func acquireSem(ctx context.Context, sem chan struct{}) error {
	select {
	case sem <- struct{}{}:
		return nil
	default:
	}
	select {
	case sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func releaseSem(sem chan struct{}) { <-sem }
