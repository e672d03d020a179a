package rows

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	// pollLimit bounds one look.
	pollLimit = 2 * time.Second
	// linger is for how long it is listened after the last waiter, and a name is known:
	// where many want a lock the next one waits soon, and to connect costs more than a lock.
	linger = 2 * time.Second
	// listenDelay bounds the pause between two attempts to listen.
	listenDelay = 5 * time.Second
)

// hub wakes waiters for what became free. It listens where the table can, and looks
// at the rows where it cannot, or not now: for all waiters in one statement. It runs
// from the first waiter to the last, and where it listens a while longer.
type hub struct {
	table   Table
	group   *background.Group
	listens bool
	noQueue bool // rows have no queue

	mu      sync.Mutex
	last    uint64            // the latest version given out; never given out twice
	looks   uint64            // how many have begun
	topics  map[string]*topic // by name, of those for which somebody waits, or did a moment ago
	session *session          // nil if there are no topics
	drains  int               // how many wait for the end of the session
}

// session is one run of the hub. The mutex of the hub guards live.
type session struct {
	stop context.CancelFunc
	over <-chan struct{}    // closed by stop
	stir chan time.Duration // capacity 1: somebody begins to wait; how soon to look
	live bool               // releases are heard
}

// stamp returns the version of name for an owner; 0 if it has no topic.
func (h *hub) stamp(name, owner string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	switch s := t.find(owner); {
	case t == nil:
		return 0
	case s != nil:
		return s.version
	}
	return t.version
}

// refused takes note that a try of owner was refused.
func (h *hub) refused(name, owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.topics[name].find(owner); s != nil {
		s.ready = false
	}
}

// waits says that owner waits for name, and that nothing has said since its last try that
// another would do better.
func (h *hub) waits(name, owner string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.topics[name].find(owner)
	return s != nil && !s.ready
}

// join adds a waiter for name, and starts to listen with the first. What happened to a
// name before it had a topic is not known: that counts as a change.
func (h *hub) join(name, owner string) (*topic, *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil {
		h.topics = make(map[string]*topic)
		h.start()
	}
	t := h.topics[name]
	if t == nil {
		t = &topic{}
		h.topics[name] = t
		if h.session.live {
			h.advanceAll(t)
		}
	}
	if t.missed == owner {
		h.advanceAll(t)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	s := &sleeper{owner: owner, version: t.version, changed: make(chan struct{})}
	t.sleepers = append(t.sleepers, s)
	return t, s
}

// start begins a session. The mutex is held.
func (h *hub) start() {
	ctx, stop := context.WithCancel(context.Background())
	s := &session{stop: stop, over: ctx.Done(), stir: make(chan time.Duration, 1)}
	h.session = s
	h.group.Go(func() { h.run(ctx, s) })
}

// leave takes a waiter away. Where it is listened, a topic outlasts the last one: who has
// the lock, and will wait for it again, needs no second try for what was missed meanwhile.
func (h *hub) leave(name string, t *topic, s *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(t.sleepers, s)
	switch t.sleepers = slices.Delete(t.sleepers, at, at+1); {
	case len(t.sleepers) > 0:
	case !h.session.live || h.drains > 0:
		h.forget(name, t)
	case t.idle != nil:
		t.idle.Reset(linger)
	default:
		t.idle = time.AfterFunc(linger, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.forget(name, t)
		})
	}
}

// forget ends a topic without waiters, and with the last topic the session. The mutex is
// held.
func (h *hub) forget(name string, t *topic) {
	if h.topics[name] != t || len(t.sleepers) > 0 {
		return
	}
	delete(h.topics, name)
	if len(h.topics) == 0 {
		h.session.stop()
		h.session = nil
	}
}

// drain ends the session as soon as nobody waits, and waits for that and for what else
// runs, as Group.Wait does.
func (h *hub) drain(ctx context.Context) error {
	h.add(1)
	defer h.add(-1)
	return h.group.Wait(ctx)
}

// add changes how many drain.
func (h *hub) add(drains int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drains += drains; h.drains == 0 {
		return
	}
	for name, t := range h.topics {
		h.forget(name, t)
	}
}

// wait returns when s has another version than that of last, or with ctx's error.
func (h *hub) wait(ctx context.Context, s *sleeper, last ahead) error {
	h.mu.Lock()
	s.inside, s.place, s.look = true, last.place, h.looks
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.inside = false
	}()
	version, changed, run := s.version, s.changed, h.session
	polls := !run.live || last.place == Waiting
	h.mu.Unlock()
	if err := ctx.Err(); err != nil || version != last.version {
		return err
	}
	if polls {
		select {
		case run.stir <- soonAt(last.place):
		default:
		}
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// released takes note that name was released, and that it is the turn of next. With "" it may
// be anybody's.
func (h *hub) released(name, next string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	switch s := t.find(next); {
	case t == nil:
	case s != nil:
		h.advance(t, s)
		s.ready = true
		if len(t.sleepers) > 1 { // a grant out of turn may have taken their places
			h.wakeAfterTurn(name, t)
		}
	case next == "":
		h.advanceAll(t)
	default:
		t.missed = next // it may be ours, and about to join
		h.wakeAfterTurn(name, t)
	}
}

// wakeAfterTurn wakes waiters when the turn of another has passed, which may be
// gone. The mutex is held.
func (h *hub) wakeAfterTurn(name string, t *topic) {
	if t.due {
		return
	}
	t.due = true
	over := h.session.over
	h.group.Go(func() {
		timer := time.NewTimer(Turn)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.due = false; h.topics[name] == t {
			h.advanceAll(t)
		}
	})
}

// setLive takes note that from now on releases are heard, or are not. Any name may have
// been released since they were heard last.
func (h *hub) setLive(s *session, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.live = live
	for _, t := range h.topics {
		h.advanceAll(t)
	}
}

// advance wakes one waiter.
func (h *hub) advance(t *topic, s *sleeper) {
	h.last++
	t.version, s.version = h.last, h.last
	close(s.changed)
	s.changed = make(chan struct{})
}

// advanceAll wakes all waiters of a topic.
func (h *hub) advanceAll(t *topic) {
	h.last++
	t.version = h.last
	for _, s := range t.sleepers {
		h.advance(t, s)
	}
}

// run listens, and polls, until ctx ends. It does not listen at once: most names are free
// within that time.
func (h *hub) run(ctx context.Context, s *session) {
	h.group.Go(func() { h.poll(ctx, s.stir) })
	for failures := 0; ctx.Err() == nil; {
		for live := false; !live && ctx.Err() == nil; {
			retry.Sleep(ctx, retry.Delay(failures, listenDelay))
			failures++
			h.listen(ctx, func() {
				live, failures = true, 1
				h.setLive(s, true)
			})
		}
		h.setLive(s, false) // the link is lost
	}
}

// listen listens until the link is lost or ctx ends; where the table never can, until
// ctx ends.
func (h *hub) listen(ctx context.Context, live func()) {
	if !h.listens || errors.Is(h.table.Listen(ctx, live, h.released), errors.ErrUnsupported) {
		<-ctx.Done()
	}
}

// poll looks for rows that became free, until ctx ends: while there is a waiter that
// is not notified.
func (h *hub) poll(ctx context.Context, stir <-chan time.Duration) {
	pause, timer := pollLeast, time.NewTimer(pollLeast)
	defer timer.Stop()
	for due := time.Now().Add(pollLeast); ; {
		select {
		case <-timer.C:
			soon, looked := h.observe(ctx)
			if !looked {
				due = time.Now().Add(pollIdle) // or when somebody begins to wait
				break
			}
			pause = cmp.Or(soon, min(2*pause, pollMost))
			due = time.Now().Add(pause - rand.N(pause/4)) //nolint:gosec // spreads load, protects nothing
		case soon := <-stir: // never later than it was due, however many begin to wait
			pause = min(pause, soon)
			if at := time.Now().Add(soon); at.Before(due) {
				due = at
			}
		case <-ctx.Done():
			return
		}
		timer.Reset(time.Until(due))
	}
}

// watched returns the names that somebody waits for who is not notified. The mutex is held.
func (h *hub) watched() (names []string) {
	for name, t := range h.topics {
		if slices.ContainsFunc(t.sleepers, func(s *sleeper) bool {
			return s.inside && (!h.session.live || s.place == Waiting)
		}) {
			names = append(names, name)
		}
	}
	return names
}

// observe wakes waiters for a row that is free for one of them. It returns how soon to
// observe again, where it is to be soon: there was such a row, or locks change hands and the
// next turn is near. Else it returns 0. It reports false if there was no row to look at.
func (h *hub) observe(ctx context.Context) (soon time.Duration, looked bool) {
	h.mu.Lock()
	h.looks++
	look, names := h.looks, h.watched()
	h.mu.Unlock()
	if len(names) == 0 {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	rows, err := h.table.Look(ctx, names)
	if err != nil {
		return 0, true
	}
	for i := range rows {
		soon = sooner(soon, h.seen(names[i], &rows[i], look))
	}
	return soon, true
}

// seen takes note of the row of name as a look found it, and returns how soon to look at it again, 0 if that
// need not be soon.
func (h *hub) seen(name string, r *Row, look uint64) (soon time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		return 0
	}
	moved, foremost, woken, room := t.last != r.Last, Waiting, false, h.room(r)
	t.last = r.Last
	for _, s := range t.sleepers {
		place := r.place(s.owner)
		foremost = min(foremost, place)
		missed, enters := s.missedTurn(r, look), room > 0 && s.wantsPlace(r, look)
		if enters {
			room--
		}
		switch {
		case r.FreeIn(s.owner) <= 0, missed, enters:
			h.advance(t, s)
			s.ready, woken = true, true
		case place == 0 && len(r.Waiters) > 0:
			soon = sooner(soon, firstAt(r.Held))
		case moved && place < nearPlaces:
			soon = sooner(soon, soonAt(place))
		}
	}
	if woken {
		return pollLeast
	}
	return sooner(soon, t.advanced(foremost))
}
