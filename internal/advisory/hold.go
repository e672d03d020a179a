// Package advisory is what the session locks of databases have in common: a hold that
// ends with its connection, and the numbers by which other programs name such locks.
package advisory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	// CheckLimit is how long a session may take to answer. One that takes longer counts
	// as lost.
	CheckLimit = 5 * time.Second

	// CloseLimit is how long the end of a connection is waited for.
	CloseLimit = time.Second
)

// Session is a connection that holds a lock. Its methods are called one after the other.
type Session interface {
	// Watch returns an error when the lock is lost. When ctx ends it returns nil, within
	// CheckLimit, and the connection can be used as before.
	Watch(ctx context.Context) error

	// Release asks the server to release the lock. Where the server does not have it any
	// more the error is a *driver.GoneError.
	Release(ctx context.Context) error

	// Close ends the connection, if there is one, and the lock with it.
	Close()
}

// Hold is a lock that a session holds. Its methods may be called from several goroutines
// at once.
type Hold struct {
	name    string
	session Session

	stop     context.CancelFunc // ends Watch
	watched  chan struct{}      // closed when Watch has returned
	released atomic.Bool        // Unlock was called

	mu       sync.Mutex
	over     error // why the hold has ended; nil while it has not
	contexts map[int]context.CancelCauseFunc
	made     int // contexts
}

// Take calls take, which has s get the lock name, and watches the session then. If that
// fails, or ctx ends meanwhile, the session is closed; the error is that of ctx then.
func Take(ctx context.Context, name string, s Session, take func() error) (*Hold, error) {
	err := take()
	if err == nil && ctx.Err() == nil {
		return Start(name, s), nil
	}
	if err == nil { // it was granted at the last moment
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), CheckLimit)
		_ = s.Release(release) // the end of the connection releases it, too
		cancel()
	}
	s.Close()
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = ctx.Err()
	}
	return nil, err
}

// Start watches a session that holds the lock name. The goroutine that does ends with the
// loss of the lock, and Unlock waits for it.
func Start(name string, s Session) *Hold {
	h := &Hold{name: name, session: s, watched: make(chan struct{}), contexts: make(map[int]context.CancelCauseFunc)}
	watching, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() {
		defer close(h.watched)
		if err := s.Watch(watching); err != nil {
			h.end(h.lost(err))
			s.Close()
		}
	}()
	return h
}

// Err returns nil while the lock is held, else a *holdfast.LostError or
// holdfast.ErrUnlocked.
func (h *Hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// Context returns a context that ends with parent and with the hold.
func (h *Hold) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if over := h.remember(ctx, cancel); over != nil {
		cancel(over)
	}
	return ctx
}

// remember has end cancel ctx, which it forgets when that has ended. If the hold has ended
// before, it returns why.
func (h *Hold) remember(ctx context.Context, cancel context.CancelCauseFunc) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return h.over
	}
	n := h.made
	h.made++
	h.contexts[n] = cancel
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.contexts, n)
	})
	return nil
}

// end ends the contexts. They have ended when it returns.
func (h *Hold) end(err error) {
	h.mu.Lock()
	h.over = err
	contexts := slices.Collect(maps.Values(h.contexts))
	h.mu.Unlock()
	for _, cancel := range contexts {
		cancel(err)
	}
}

// Unlock releases the lock and closes the connection. Contexts end before the server is
// asked, because another may hold the lock from then on.
func (h *Hold) Unlock() error {
	if h.released.Swap(true) {
		return fmt.Errorf("unlock %q: %w", h.name, holdfast.ErrUnlocked)
	}
	h.stop()
	<-h.watched
	if err := h.Err(); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	h.end(holdfast.ErrUnlocked)
	ctx, cancel := context.WithTimeout(context.Background(), CheckLimit)
	defer cancel()
	err := h.session.Release(ctx)
	h.session.Close()
	if err != nil {
		return fmt.Errorf("unlock: %w", h.lost(err))
	}
	return nil
}

// lost says why the session does not hold the lock any more.
func (h *Hold) lost(err error) error {
	lost := &holdfast.LostError{Name: h.name, Reason: driver.ReasonClosed, Cause: err}
	var gone *driver.GoneError
	switch {
	case errors.As(err, &gone):
		lost.Reason = gone.Reason
	case errors.Is(err, context.DeadlineExceeded):
		lost.Reason = driver.ReasonUnreachable
	}
	return lost
}
