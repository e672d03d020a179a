package ordered

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// sweepsPerTTL is how many times the Engine lists the entries of a session in one TTL of that
// session, at most.
const sweepsPerTTL = 3

// extension is the last call that extended a session. Callers that waited while the call was
// under way share its result. So at most one such call is under way, however many claims are
// renewed, and however long the store does not answer.
type extension struct {
	number int     // how many calls there were so far
	s      session // the session after the call
	err    error
}

// extend extends the session s, or waits for the call of another caller that extends it. It
// returns the extended session. The call of another caller counts only if the session then
// lives for the time `least` or longer, counted from the beginning of extend. The error is
// driver.ErrGone if the session has ended, and all of its claims with it.
func (e *Engine) extend(ctx context.Context, s session, least time.Duration) (session, error) {
	start, before := e.clock.Read(), e.lastExtension()
	select {
	case e.extendMutex <- struct{}{}:
		defer func() { <-e.extendMutex }()
	case <-ctx.Done():
		return session{}, ctx.Err()
	}
	last := e.lastExtension()
	switch {
	case last.number == before.number:
	case last.err == nil && last.s.id == s.id && last.s.remaining(start) >= least:
		return last.s, nil
	case last.err != nil && !retry.Ended(last.err) && !retry.Gone(last.err):
		return session{}, last.err
	}
	// No other call has ended meanwhile, or the result of that call does not count: the call
	// was for another session, it began too early, its context ended first, or the session had
	// ended.
	sent := e.clock.Read()
	ttl, err := e.store.Extend(ctx, s.id)
	switch {
	case err == nil:
		s.ttl, s.sent = ttl, sent
	case retry.Gone(err):
		e.lose(s.id)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.extended = extension{last.number + 1, s, err}
	if err == nil && e.session.id == s.id {
		e.session = s
	}
	return s, err
}

func (e *Engine) lastExtension() extension {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.extended
}

// sweep removes entries that no claim needs: an entry of a Try that the store executed after
// the Release of the claim, or an entry whose Release failed and is not repeated. It lists all
// entries of the session, so it runs at most once in each third of the session's TTL. A later
// sweep retries the removals that failed.
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

// sweepDue reports whether the caller has to sweep: no caller has swept the session s in the
// current third of its TTL.
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
