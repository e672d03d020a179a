package ordered

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// session is the one of an Engine; id is 0 while there is none.
type session struct {
	id   int64
	ttl  time.Duration
	sent clock.Moment // when the last call that extended it was sent
}

// rest is for how long the session lives at least. While the machine was suspended the
// store has counted on: then only the store knows.
func (s session) rest(now clock.Moment) time.Duration {
	if s.id == 0 || now.Suspended(s.sent, s.ttl/10) {
		return 0
	}
	return s.sent.Mono + s.ttl - now.Mono
}

func (e *Engine) current() session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

// ready returns a session that lives for as long as a claim needs: half of its time,
// or all of ttl where that is shorter than the time of a session, since such a claim is
// not renewed. One that was idle is extended, or replaced if it has ended.
func (e *Engine) ready(ctx context.Context, ttl time.Duration) (session, error) {
	if s := e.current(); e.enough(s, ttl) {
		return s, nil
	}
	select { // one opens or extends it for all
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return session{}, notExecuted(ctx.Err())
	}
	s := e.current()
	if e.enough(s, ttl) {
		return s, nil
	}
	if s.id != 0 {
		s, err := e.extend(ctx, s)
		if err == nil {
			_, _ = e.own(ctx, s) // sweeps; if that fails, the next one does
		}
		if !errors.Is(err, driver.ErrGone) {
			return s, err
		}
	}
	return e.open(ctx)
}

// enough says that s lives for as long as a claim with that TTL needs.
func (e *Engine) enough(s session, ttl time.Duration) bool {
	need := s.ttl / 2
	if ttl < s.ttl {
		need = max(need, ttl)
	}
	return s.id != 0 && s.rest(e.clock.Read()) >= need
}

func (e *Engine) open(ctx context.Context) (s session, err error) {
	s.sent = e.clock.Read()
	if s.id, s.ttl, err = e.store.Open(ctx); err != nil {
		return session{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	return s, nil
}

// extend extends s. The error is driver.ErrGone if it has ended: all of its claims are
// gone then.
func (e *Engine) extend(ctx context.Context, s session) (session, error) {
	sent := e.clock.Read()
	ttl, err := e.store.Extend(ctx, s.id)
	switch {
	case errors.Is(err, driver.ErrGone):
		e.lose(s.id)
		return session{}, err
	case err != nil:
		return session{}, err
	}
	s.ttl, s.sent = ttl, sent
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session.id == s.id && sent.Mono > e.session.sent.Mono {
		e.session = s
	}
	return s, nil
}

// lose forgets a session that has ended, and its claims, and notifies all clients.
func (e *Engine) lose(id int64) {
	e.mu.Lock()
	var listeners []func(uint64)
	if e.session.id == id {
		e.session = session{}
		for _, hint := range e.listeners {
			listeners = append(listeners, *hint)
		}
	}
	for at, k := range e.claims {
		if k.session == id {
			delete(e.claims, at)
		}
	}
	e.mu.Unlock()
	for _, hint := range listeners {
		hint(0)
	}
}

// own returns which claims have an entry in the session, and removes entries that no
// claim needs: of a Try that arrived after its Release, or of a Release that nobody
// repeats any more.
func (e *Engine) own(ctx context.Context, s session) (map[place]bool, error) {
	entries, err := e.store.Own(ctx, s.id)
	if err != nil {
		return nil, err
	}
	found := make(map[place]bool, len(entries))
	for _, entry := range entries {
		at := place{entry.Name, entry.Mark.ID}
		found[at] = true
		e.mu.Lock()
		k := e.claims[at]
		orphan := k == nil || !k.needed()
		e.mu.Unlock()
		if !orphan {
			continue
		}
		if _, err := e.store.Remove(ctx, s.id, entry.Name, entry.Mark); err == nil && k != nil {
			e.forget(k)
		}
	}
	return found, nil
}

// Notify calls hint with 0 when the session has ended, and with the claims of client that
// were ended by force, until ctx ends.
func (e *Engine) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.mu.Lock()
	e.listeners = append(e.listeners, &hint)
	e.mu.Unlock()
	e.listen(ctx, client, hint)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, other := range e.listeners {
		if other == &hint {
			e.listeners = append(e.listeners[:i], e.listeners[i+1:]...)
			break
		}
	}
	return ctx.Err()
}
