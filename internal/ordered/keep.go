package ordered

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// sweepsPerTTL is how many times the Engine lists the entries of a session in one TTL of that
// session, at most.
const sweepsPerTTL = 3

// keepAlive is a call that extends a session. All callers that need the session extended while
// the call is under way share its result. So at most one such call is under way, however many
// claims are renewed, and however long the store does not answer.
type keepAlive struct {
	done chan struct{} // closed when s and err are set
	s    session       // the session after the call
	err  error
}

// extend extends s, or waits for the call of another caller that extends it. It returns s as
// the call extended it. A call of another caller counts only if s then lives for the time
// `least` or longer. The error is driver.ErrGone if the session has ended, and all of its
// claims with it.
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
		case k.err == nil && k.s.id == s.id && k.s.remaining(start) >= least:
			return k.s, nil
		case k.err != nil && !retry.Ended(k.err) && !errors.Is(k.err, driver.ErrGone):
			return session{}, k.err
		}
		// The call was for another session, or it began too early, or its context ended first.
	}
}

// join returns the call that extends a session. If first is true, no such call was under way,
// and the caller of join must make it.
func (e *Engine) join() (k *keepAlive, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = e.extending == nil; first {
		e.extending = &keepAlive{done: make(chan struct{}), err: errors.New("the call that extends the session has panicked")}
	}
	return e.extending, first
}

// keepAlive makes the call k, which extends s, and sets its result.
func (e *Engine) keepAlive(ctx context.Context, k *keepAlive, s session) {
	defer func() {
		e.mu.Lock()
		e.extending = nil
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

// extended records that s was extended, unless a call that was sent later has been recorded.
func (e *Engine) extended(s session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.id == s.id && s.sent.Mono > e.session.sent.Mono {
		e.session = s
	}
}

// sweep removes entries that no claim needs: an entry of a Try that arrived after its Release,
// or an entry whose Release failed and is not repeated. It lists all entries of the session,
// so it runs at most once in each third of the session's TTL. A later sweep retries the
// removals that failed.
func (e *Engine) sweep(ctx context.Context, s session) {
	if !e.sweepDue(s) {
		return
	}
	entries, err := e.store.Own(ctx, s.id)
	if err != nil {
		return
	}
	for _, entry := range entries {
		key := claimKey{entry.Name, entry.Label.ID}
		e.mu.Lock()
		k := e.claims[key]
		orphan := k == nil || !k.needed(e.clock.Now())
		e.mu.Unlock()
		if !orphan {
			continue
		}
		if _, err := e.store.Remove(ctx, s.id, entry.Name, entry.Label); err == nil && k != nil {
			e.forget(k)
		}
	}
}

// sweepDue reports whether the caller has to sweep: nobody has swept s in the current third of
// its TTL.
func (e *Engine) sweepDue(s session) bool {
	third := e.clock.Now() / clock.Instant(max(s.ttl/sweepsPerTTL, 1))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lastSweep == (sweepTime{s.id, third}) {
		return false
	}
	e.lastSweep = sweepTime{s.id, third}
	return true
}

// sweepTime is the third of a session's TTL in which the entries of the session were listed.
type sweepTime struct {
	session int64
	third   clock.Instant
}
