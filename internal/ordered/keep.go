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
	number int     // 1 for the first such call, 2 for the second, …; 0 before the first
	s      session // the session after the call
	err    error
}

// extend extends the session s, or waits for the call of another caller that extends it. It
// returns the extended session. If the other call succeeded, its result counts only if the
// session then lives for at least the time `least`, counted from the beginning of extend. The
// error is driver.ErrGone if the session has ended. In that case all claims of the session have
// ended, too.
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
	// No other call has ended meanwhile, or the result of that call does not count. It does not
	// count if the call was for another session or began too early, if the context of the call
	// ended before the answer, or if the session had ended.
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

// sweep removes entries that no claim needs. Such an entry exists if the store executed a Try
// after the Release of the same claim. It also exists if a Release failed, and the caller does
// not repeat that Release. sweep lists all entries of the session, so it runs at most once in
// each third of the session's TTL. A later sweep retries the removals that failed.
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

// sweepTime says when the entries of a session were listed.
type sweepTime struct {
	session int64
	third   clock.Instant // the number of the period; a period is a third of the session's TTL
}
