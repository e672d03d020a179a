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

// topic is what is known of one name. The mutex of the hub guards it.
type topic struct {
	waiters []string          // the owners of those that were made and not closed
	idle    *time.Timer       // ends a topic without waiters; nil if there was none to end yet
	inside  int               // how many of them wait now
	placed  map[string]uint64 // of these, the owners with a place in the queue, and the last look before
	last    uint64            // token of the row when it was looked at last
	place   int               // of the foremost waiter then
	looked  time.Time         // when that was
	due     bool              // it changes when the turn of another has passed
	missed  string            // whose turn it was according to the last notification, if it was none of waiters
	version uint64            // changes with everything that may mean a release
	changed chan struct{}     // closed when version changes, and replaced
}

// stamp returns the version of name; 0 if it has no topic.
func (h *hub) stamp(name string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[name]; t != nil {
		return t.version
	}
	return 0
}

// join adds a waiter for name, and starts to listen with the first. What happened to a
// name before it had a topic is not known: that counts as a change.
func (h *hub) join(name, owner string) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session == nil {
		h.topics = make(map[string]*topic)
		h.start()
	}
	t := h.topics[name]
	if t == nil {
		t = &topic{changed: make(chan struct{}), placed: make(map[string]uint64)}
		h.topics[name] = t
		if h.session.live {
			h.advance(t)
		}
	}
	if t.missed == owner {
		h.advance(t)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	t.waiters = append(t.waiters, owner)
	return t
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
func (h *hub) leave(name, owner string, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(t.waiters, owner)
	switch t.waiters = slices.Delete(t.waiters, at, at+1); {
	case len(t.waiters) > 0:
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
	if h.topics[name] != t || len(t.waiters) > 0 {
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

// wait returns when t has another version than that of last, or with ctx's error.
func (h *hub) wait(ctx context.Context, t *topic, owner string, last ahead) error {
	h.mu.Lock()
	t.inside++
	if last.place < Waiting {
		t.placed[owner] = h.looks
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		t.inside--
		delete(t.placed, owner)
	}()
	version, changed, stir := t.version, t.changed, h.session.stir
	h.mu.Unlock()
	if err := ctx.Err(); err != nil || version != last.version {
		return err
	}
	select {
	case stir <- soonAt(last.place):
	default:
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
	switch {
	case t == nil:
	case next == "" || slices.Contains(t.waiters, next):
		h.advance(t)
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
			h.advance(t)
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
		h.advance(t)
	}
}

func (h *hub) advance(t *topic) {
	h.last++
	t.version = h.last
	close(t.changed)
	t.changed = make(chan struct{})
}

// run listens, and polls for as long as it does not hear, until ctx ends. It does not
// listen at once: most names are free within that time.
func (h *hub) run(ctx context.Context, s *session) {
	for failures := 0; ctx.Err() == nil; {
		polling, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		h.group.Go(func() {
			defer close(done)
			h.poll(polling, s.stir)
		})
		for live := false; !live && ctx.Err() == nil; {
			retry.Sleep(ctx, retry.Delay(failures, listenDelay))
			failures++
			h.listen(ctx, func() {
				live, failures = true, 1
				stop()
				h.setLive(s, true)
			})
		}
		stop()
		<-done
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

// poll looks for rows that became free, until ctx ends.
func (h *hub) poll(ctx context.Context, stir <-chan time.Duration) {
	pause, timer := pollLeast, time.NewTimer(pollLeast)
	defer timer.Stop()
	for due := time.Now().Add(pollLeast); ; {
		select {
		case <-timer.C:
			pause = cmp.Or(h.observe(ctx), min(2*pause, pollMost))
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

// observe wakes waiters for a row that is free for one of them. It returns how soon to
// observe again, where it is to be soon: there was such a row, or locks change hands and the
// next turn is near. Else it returns 0.
func (h *hub) observe(ctx context.Context) (soon time.Duration) {
	h.mu.Lock()
	h.looks++
	look := h.looks
	var names []string
	for name, t := range h.topics {
		if t.inside > 0 {
			names = append(names, name)
		}
	}
	h.mu.Unlock()
	if len(names) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	rows, err := h.table.Look(ctx, names)
	if err != nil {
		return 0
	}
	for i := range rows {
		soon = sooner(soon, h.seen(names[i], &rows[i], look))
	}
	return soon
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
	moved, foremost := t.last != r.Last, Waiting
	t.last = r.Last
	for _, owner := range t.waiters {
		place := r.place(owner)
		foremost = min(foremost, place)
		switch {
		case r.FreeIn(owner) <= 0, t.missedTurn(owner, r, look):
			h.advance(t)
			return pollLeast
		case place == 0 && len(r.Waiters) > 0:
			soon = sooner(soon, firstAt(r.Held))
		case moved && place < nearPlaces:
			soon = sooner(soon, soonAt(place))
		}
	}
	return sooner(soon, t.advanced(foremost))
}
