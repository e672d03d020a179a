package supervise

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// attempts has the results of the calls with which a command requests a lock.
type attempts struct {
	mu    sync.Mutex
	err   error  // of the last call; nil if the store has answered
	busy  bool   // the store has answered that another client holds the lock
	owner string // the owner of the last grant

	changed chan struct{} // has a value after each change of err and busy
}

func newAttempts() *attempts { return &attempts{changed: make(chan struct{}, 1)} }

// begin removes the results of an earlier acquire.
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

// trouble returns the error with which the store has refused the last call, or nil. silent is
// true if the store has not answered that call in time.
func (a *attempts) trouble() (reason error, silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(a.err, context.DeadlineExceeded) {
		return nil, true
	}
	return a.err, false
}

// held reports whether another client holds the lock.
func (a *attempts) held() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy
}

// holder returns the owner of the last grant, as the store has it.
func (a *attempts) holder() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner
}
