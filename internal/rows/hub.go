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
	// pollLimit bounds the time of one poll.
	pollLimit = 2 * time.Second
	// linger is how long the hub keeps the topic of a name, and listens, after the last waiter
	// of the name has left. Under contention the next waiter comes soon, and a new connection
	// costs more than a lock.
	linger = 2 * time.Second
	// listenDelay bounds the pause between two attempts to listen.
	listenDelay = 5 * time.Second
)

// hub wakes waiters when a name becomes free. It listens if Limits.Listens is set. While it
// does not listen, it polls: one statement reads the rows for all waiters. The hub runs while
// there are waiters. If it listens or has begun to connect, it continues for the time `linger`
// after the last waiter has left. Otherwise many waits that are shorter than the time to connect
// would each begin a connection, and none would listen.
type hub struct {
	table   Table
	group   *background.Group
	listens bool
	noQueue bool // rows have no queue

	mu      sync.Mutex
	last    uint64            // the latest version; no version is used twice
	polls   uint64            // how many polls have begun
	topics  map[string]*topic // by name; a topic without waiters is kept for the time `linger`
	current *hubRun           // nil if there are no topics
	drains  int               // how many calls of drain are under way
}

// hubRun is one run of the hub. The mutex of the hub guards the fields `connects` and `live`.
type hubRun struct {
	stop     context.CancelFunc
	done     <-chan struct{}    // closed by stop
	pollSoon chan time.Duration // capacity 1; hub.wait sends how soon to poll
	connects bool               // the hub has a connection that can listen, or makes one
	live     bool               // the hub listens, and misses no release
}

// versionOf returns the version for the waiter with this name and owner. If there is no such
// waiter, it returns the version of the topic, or 0 if the name has no topic.
func (h *hub) versionOf(name, owner string) uint64 {
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

// tryRefused records that a Try of the waiter with this name and owner was refused.
func (h *hub) tryRefused(name, owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.topics[name].find(owner); s != nil {
		s.shouldTry = false
	}
}

// shouldWait reports whether there is a waiter with this name and owner for which another Try
// would be too early: since its last Try, neither a poll nor a notification has shown that a
// Try may be granted.
func (h *hub) shouldWait(name, owner string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.topics[name].find(owner)
	return s != nil && !s.shouldTry
}

// join adds a waiter for a name. The first waiter begins a run of the hub. If the run is live
// already, a new topic gets a new version, because the name may have been released before the
// topic existed.
func (h *hub) join(name, owner string) (*topic, *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		ctx, stop := context.WithCancel(context.Background())
		run := &hubRun{stop: stop, done: ctx.Done(), pollSoon: make(chan time.Duration, 1)}
		h.topics, h.current = make(map[string]*topic), run
		h.group.Go(func() { h.run(ctx, run) })
	}
	t := h.topics[name]
	if t == nil {
		t = &topic{}
		h.topics[name] = t
		if h.current.live {
			h.wakeAll(t)
		}
	}
	if t.missed == owner {
		h.wakeAll(t)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	s := &sleeper{owner: owner, version: t.version, changed: make(chan struct{})}
	t.sleepers = append(t.sleepers, s)
	return t, s
}

// leave removes a waiter. If the hub listens or connects, a topic without waiters stays for the
// time `linger`. While the hub listens, the topic still receives each release. So a waiter that
// joins this topic needs no second Try.
func (h *hub) leave(name string, t *topic, s *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.Index(t.sleepers, s)
	switch t.sleepers = slices.Delete(t.sleepers, at, at+1); {
	case len(t.sleepers) > 0:
	case !h.current.connects || h.drains > 0:
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

// forget removes a topic if the topic has no waiters. If no topic is left, it ends the run of
// the hub. The mutex is held.
func (h *hub) forget(name string, t *topic) {
	if h.topics[name] != t || len(t.sleepers) > 0 {
		return
	}
	delete(h.topics, name)
	if len(h.topics) == 0 {
		h.current.stop()
		h.current = nil
	}
}

// drain makes the run end as soon as there are no waiters: topics without waiters are removed
// at once, not after the time `linger`. It waits until all goroutines of the Engine have ended,
// or until ctx ends, as Group.Wait does.
func (h *hub) drain(ctx context.Context) error {
	h.addDrains(1)
	defer h.addDrains(-1)
	return h.group.Wait(ctx)
}

// addDrains adds a number to the field `drains`. While calls of drain are under way, it removes
// topics without waiters.
func (h *hub) addDrains(drains int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drains += drains; h.drains == 0 {
		return
	}
	for name, t := range h.topics {
		h.forget(name, t)
	}
}

// wait returns nil as soon as the version of s differs from last.version. If ctx ends before
// that, it returns the error of ctx.
func (h *hub) wait(ctx context.Context, s *sleeper, last ahead) error {
	h.mu.Lock()
	s.waiting, s.position, s.noQueue, s.pollsBefore = true, last.position, last.noQueue, h.polls
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		s.waiting = false
	}()
	version, changed, run := s.version, s.changed, h.current
	polls := !run.live || last.position == Waiting
	h.mu.Unlock()
	if err := ctx.Err(); err != nil || version != last.version {
		return err
	}
	if polls {
		select {
		case run.pollSoon <- pollAfter(last.position):
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

// released records that a name was released, and that it is now the turn of the owner `next`.
// If `next` is "", any waiter may get the name.
func (h *hub) released(name, next string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	switch s := t.find(next); {
	case t == nil:
	case s != nil:
		h.wake(t, s)
		s.shouldTry = true
		if len(t.sleepers) > 1 { // a grant out of turn may have removed the others from the queue
			h.wakeAfterTurn(name, t)
		}
	case next == "":
		h.wakeAll(t)
	default:
		t.missed = next // that owner may be in this process, and about to join
		h.wakeAfterTurn(name, t)
	}
}

// wakeAfterTurn wakes all waiters of a topic when one Turn has passed, because the waiter whose
// turn it was may have died. The mutex is held.
func (h *hub) wakeAfterTurn(name string, t *topic) {
	if t.wakePending {
		return
	}
	t.wakePending = true
	done := h.current.done
	h.group.Go(func() {
		timer := time.NewTimer(Turn)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-done:
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.wakePending = false; h.topics[name] == t {
			h.wakeAll(t)
		}
	})
}

// setConnects records whether the run has a connection that can listen, or makes one.
func (h *hub) setConnects(s *hubRun, connects bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.connects = connects
}

// setLive records whether the run receives all releases from now on. It wakes all waiters,
// because their names may have been released before this call.
func (h *hub) setLive(s *hubRun, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.live = live
	for _, t := range h.topics {
		h.wakeAll(t)
	}
}

// wake wakes one waiter. The mutex is held.
func (h *hub) wake(t *topic, s *sleeper) {
	h.last++
	t.version, s.version = h.last, h.last
	close(s.changed)
	s.changed = make(chan struct{})
}

// wakeAll wakes all waiters of a topic. The mutex is held.
func (h *hub) wakeAll(t *topic) {
	h.last++
	t.version = h.last
	for _, s := range t.sleepers {
		h.wake(t, s)
	}
}

// run listens and polls until ctx ends. It begins to listen after a first pause, because most
// names become free during that pause.
func (h *hub) run(ctx context.Context, s *hubRun) {
	h.group.Go(func() { h.poll(ctx, s.pollSoon) })
	for failures := 0; ctx.Err() == nil; {
		for live := false; !live && retry.Sleep(ctx, retry.Delay(failures, listenDelay)); {
			failures++
			h.listen(ctx, s, func() {
				live, failures = true, 1
				h.setLive(s, true)
			})
		}
		h.setLive(s, false) // the link is lost
	}
}

// listen listens until the connection is lost or ctx ends. If the table can never listen,
// it waits until ctx ends.
func (h *hub) listen(ctx context.Context, s *hubRun, live func()) {
	if h.listens {
		h.setConnects(s, true)
		err := h.table.(Listener).Listen(ctx, live, h.released)
		h.setConnects(s, false)
		if !errors.Is(err, errors.ErrUnsupported) {
			return
		}
	}
	<-ctx.Done()
}

// poll polls rows while there is a waiter that notifications do not reach. It returns when ctx
// ends.
func (h *hub) poll(ctx context.Context, pollSoon <-chan time.Duration) {
	pause, timer := pollLeast, time.NewTimer(pollLeast)
	defer timer.Stop()
	for due := time.Now().Add(pollLeast); ; {
		select {
		case <-timer.C:
			soon, polled := h.pollOnce(ctx)
			if !polled {
				due = time.Now().Add(pollIdle) // or sooner, if a waiter begins to wait
				break
			}
			pause = cmp.Or(soon, min(2*pause, pollMost))
			due = time.Now().Add(pause - rand.N(pause/4)) //nolint:gosec // spreads load, protects nothing
		case soon := <-pollSoon: // a new waiter does not delay the next poll
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

// polledNames returns the names with a waiter that notifications do not reach. The mutex is
// held.
func (h *hub) polledNames() (names []string) {
	for name, t := range h.topics {
		if slices.ContainsFunc(t.sleepers, func(s *sleeper) bool {
			return s.waiting && (!h.current.live || s.position == Waiting)
		}) {
			names = append(names, name)
		}
	}
	return names
}

// pollOnce reads the rows of polledNames once, and wakes waiters whose row is free for them.
// The result `soon` is the pause until the next poll, or 0 if no row needs a poll soon. The
// result `polled` is false if there was no row to poll.
func (h *hub) pollOnce(ctx context.Context) (soon time.Duration, polled bool) {
	h.mu.Lock()
	h.polls++
	poll, names := h.polls, h.polledNames()
	h.mu.Unlock()
	if len(names) == 0 {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	rows, err := h.table.Read(ctx, names)
	if err != nil {
		return 0, true
	}
	for i := range rows {
		soon = sooner(soon, h.recordPoll(names[i], &rows[i], poll))
	}
	return soon, true
}

// recordPoll handles the row of a name, which the poll with the number `poll` has read. It
// wakes waiters for which a Try may be granted. It returns the pause until the next poll of the
// row, or 0 if the row needs no poll soon.
func (h *hub) recordPoll(name string, r *Row, poll uint64) (soon time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		return 0
	}
	moved, foremost, woken, room := t.last != r.Last, Waiting, false, h.queueRoom(r)
	t.last = r.Last
	for _, s := range t.sleepers {
		position := r.position(s.owner)
		foremost = min(foremost, position)
		missed, enters := s.missedTurn(r, poll), room > 0 && s.wantsPosition(r, poll)
		if enters {
			room--
		}
		switch {
		case r.FreeIn(s.owner) <= 0, missed, enters:
			h.wake(t, s)
			s.shouldTry, woken = true, true
		case position == 0 && len(r.Waiters) > 0:
			soon = sooner(soon, firstPollAfter(r.HeldFor))
		case moved && position < nearPositions:
			soon = sooner(soon, pollAfter(position))
		}
	}
	if woken {
		return pollLeast
	}
	return sooner(soon, t.recordForemost(foremost))
}
