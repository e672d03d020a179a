package supervise

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// attempts is what came of the calls by which a command asks for a lock.
type attempts struct {
	mu    sync.Mutex
	err   error  // of the last call; nil if the store has answered
	busy  bool   // it has answered that somebody holds the lock
	owner string // to whom the store has granted it last

	changed chan struct{} // has a value after each change of err and busy
}

func newAttempts() *attempts { return &attempts{changed: make(chan struct{}, 1)} }

// begin forgets what an acquire before has left.
func (a *attempts) begin() { a.set(func() { a.err, a.busy = nil, false }) }

// observe records the error of a try, that the lock is busy, or the owner of a grant.
func (a *attempts) observe(e holdfast.Event) {
	switch {
	case e.Type == holdfast.EventCall && e.Op == holdfast.OpTry:
		a.set(func() { a.err = e.Err })
	case e.Type == holdfast.EventWait:
		a.set(func() { a.busy = true })
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		a.set(func() { a.owner = e.Owner })
	}
}

func (a *attempts) set(change func()) {
	a.mu.Lock()
	change()
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// trouble returns why the store does not grant the lock, nil if it does not say so, and
// whether it has said nothing at all in the time of the last call.
func (a *attempts) trouble() (reason error, silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.err, context.DeadlineExceeded) {
		return nil, true
	}
	return a.err, false
}

// held reports that somebody holds the lock.
func (a *attempts) held() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy
}

// holder returns the owner that the store has for the lock that was granted last.
func (a *attempts) holder() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner
}
