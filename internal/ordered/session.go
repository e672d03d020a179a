package ordered

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// session is the session of an Engine. Its id is 0 while there is no session.
type session struct {
	id   int64
	ttl  time.Duration
	sent clock.Moment // when the call was sent that opened the session, or that extended it last
}

// remaining returns for how long the session lives at least. It returns 0 if the machine was
// suspended since the last extension: the clock of the store continued meanwhile, so only the
// store knows the remaining time.
func (s session) remaining(now clock.Moment) time.Duration {
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

// ready returns a session that lives long enough for a new claim: see the method need. It
// extends a session whose remaining time is too short, and opens a new one if the session has
// ended. In a session with less remaining time, a claim would be valid only for a short time,
// because the safety margin of the core may take half of the remaining time.
func (e *Engine) ready(ctx context.Context, ttl time.Duration) (session, error) {
	if s := e.current(); e.enough(s, ttl) {
		return s, nil
	}
	select { // one caller opens or extends the session for all
	case e.sessionMutex <- struct{}{}:
		defer func() { <-e.sessionMutex }()
	case <-ctx.Done():
		return session{}, unsent.Error(ctx.Err())
	}
	s := e.current()
	if e.enough(s, ttl) {
		return s, nil
	}
	if s.id != 0 {
		s, err := e.extend(ctx, s, s.need(ttl))
		if err == nil {
			e.sweep(ctx, s)
		}
		if !errors.Is(err, driver.ErrGone) {
			return s, err
		}
	}
	return e.open(ctx)
}

// need returns the remaining time that a session must have for a new claim with the TTL `ttl`.
// That is two thirds of the session's TTL, because the core renews a claim after one third. The
// core does not renew a claim whose TTL is shorter than that of the session. So for such a claim
// the remaining time must also be at least the TTL of the claim.
func (s session) need(ttl time.Duration) time.Duration {
	least := s.ttl - s.ttl/3
	if ttl < s.ttl {
		return max(least, ttl)
	}
	return least
}

// enough reports whether the remaining time of s suffices for a new claim with that TTL: see
// session.need.
func (e *Engine) enough(s session, ttl time.Duration) bool {
	return s.id != 0 && s.remaining(e.clock.Read()) >= s.need(ttl)
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

// lose forgets a session that has ended, and its claims. If this was the current session, lose
// calls each function that Notify has registered, with 0 as the argument.
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

// Notify calls `hint` with 0 when the session has ended. When ForceUnlock ends a claim of the
// client, Notify calls `hint` with the sequence number of the claim. It returns the error of
// ctx when ctx ends.
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
