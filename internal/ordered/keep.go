package ordered

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// listings is how often the entries of a session are listed at most, in each TTL of it.
const listings = 3

// keepAlive is a call that extends a session, for all who want that meanwhile: of many
// claims that are renewed at once, and of many calls that a store leaves without an answer,
// only one is under way.
type keepAlive struct {
	done chan struct{} // closed when the others are set
	s    session       // as it is then
	err  error
}

// extend extends s, or waits for who does. It returns a session that lives for least from
// now on. The error is driver.ErrGone if it has ended: all of its claims are gone then.
func (e *Engine) extend(ctx context.Context, s session, least time.Duration) (session, error) {
	for start := e.clock.Read(); ; {
		k, first := e.join()
		if first {
			e.keepAlive(ctx, k, s)
			return k.s, k.err
		}
		select {
		case <-k.done:
		case <-ctx.Done():
			return session{}, ctx.Err()
		}
		switch {
		case k.err == nil && k.s.id == s.id && k.s.rest(start) >= least:
			return k.s, nil
		case k.err != nil && !retry.Ended(k.err) && !errors.Is(k.err, driver.ErrGone):
			return session{}, k.err
		}
		// It was of another session, or began too early, or had less time than there is.
	}
}

// join returns the call that extends a session. first says that it has to be made.
func (e *Engine) join() (k *keepAlive, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = e.keeping == nil; first {
		e.keeping = &keepAlive{done: make(chan struct{}), err: errors.New("the call that extends the session has panicked")}
	}
	return e.keeping, first
}

// keepAlive makes the call.
func (e *Engine) keepAlive(ctx context.Context, k *keepAlive, s session) {
	defer func() {
		e.mu.Lock()
		e.keeping = nil
		e.mu.Unlock()
		close(k.done)
	}()
	sent := e.clock.Read()
	ttl, err := e.store.Extend(ctx, s.id)
	switch {
	case errors.Is(err, driver.ErrGone):
		e.lose(s.id)
		k.err = err
	case err != nil:
		k.err = err
	default:
		s.ttl, s.sent = ttl, sent
		k.s, k.err = s, nil
		e.extended(s)
	}
}

// extended takes note of a session that was extended, unless that was before the last time.
func (e *Engine) extended(s session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.id == s.id && s.sent.Mono > e.session.sent.Mono {
		e.session = s
	}
}

// sweep removes entries that no claim needs: of a Try that arrived after its Release, or of
// a Release that nobody repeats any more. It lists all entries of the session, so it does
// so once in each third of the session's time at most. What fails, a later one does.
func (e *Engine) sweep(ctx context.Context, s session) {
	if !e.sweeps(s) {
		return
	}
	entries, err := e.store.Own(ctx, s.id)
	if err != nil {
		return
	}
	for _, entry := range entries {
		at := place{entry.Name, entry.Mark.ID}
		e.mu.Lock()
		k := e.claims[at]
		orphan := k == nil || !k.needed(e.clock.Now())
		e.mu.Unlock()
		if !orphan {
			continue
		}
		if _, err := e.store.Remove(ctx, s.id, entry.Name, entry.Mark); err == nil && k != nil {
			e.forget(k)
		}
	}
}

// sweeps says that the caller has to sweep.
func (e *Engine) sweeps(s session) bool {
	third := e.clock.Now() / clock.Instant(max(s.ttl/listings, 1))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.swept == (sweeping{s.id, third}) {
		return false
	}
	e.swept = sweeping{s.id, third}
	return true
}

// sweeping is a third of the time of a session in which its entries were listed.
type sweeping struct {
	session int64
	third   clock.Instant
}
