package versioned

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/document"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	// pollLeast is the first pause between two looks at a document that somebody waits for, and the
	// pause after a change. Each pause is twice as long as the last, up to pollMost.
	pollLeast = 5 * time.Millisecond
	pollMost  = 100 * time.Millisecond
	// For the claim whose turn is next, the pause is the time for which the lock has been held, divided
	// by pollFraction, and pollFirst at least.
	pollFirst    = time.Millisecond
	pollFraction = 4
	// pollGap is the pause after each document that was read, so that a process reads at most some
	// hundred documents a second, for however many names it waits.
	pollGap = 2 * time.Millisecond
	// pollsAtOnce is how many documents are read at once, if the store is no Batcher.
	pollsAtOnce = 8
	// watchedMost is the longest pause while the store reports changes.
	watchedMost = 5 * time.Second
	// linger is how long an Engine watches after the last waiter has left.
	linger = 2 * time.Second
	// watchDelay bounds the pause between two attempts to watch.
	watchDelay = 5 * time.Second
)

// ahead is the value of Outcome.Ahead.
type ahead struct{ kept bool } // Outcome.Kept

// sleeper is a claim that waits. The mutex of its entry guards it.
type sleeper struct {
	claim driver.Claim
	latch bool
	waits bool          // a Wait is under way
	kept  bool          // the last Try has shown that the name stays taken without a holder
	ready chan struct{} // capacity 1
}

func newSleeper(c driver.Claim, latch bool) *sleeper {
	return &sleeper{claim: c, latch: latch, ready: make(chan struct{}, 1)}
}

// readyAt returns from when on another Try, or another look at the latch, may have another answer.
func (s *sleeper) readyAt(d *document.Document) time.Time {
	if !s.latch {
		if x := d.Exclusive(); x != nil && driver.Kept(x.Owner) && !s.kept {
			return time.Time{} // another Try says for how long
		}
		return d.ReadyAt(s.claim)
	}
	if d.Kind != document.Latch || d.Count == 0 {
		return time.Time{}
	}
	return time.Unix(1<<40, 0)
}

// polled reports whether a watch does not tell of changes that concern the claim, because the
// document does not show that it waits.
func (s *sleeper) polled(d *document.Document) bool {
	return !s.latch && d.Position(s.claim.Owner) < 0 &&
		!slices.ContainsFunc(d.Waiting, func(m document.Mark) bool { return m.Owner == s.claim.Owner })
}

// Waiter returns a Waiter for c.
func (e *Engine) Waiter(c driver.Claim) driver.Waiter {
	return &waiter{engine: e, sleeper: newSleeper(c, false)}
}

type waiter struct {
	engine  *Engine
	sleeper *sleeper
	entry   *entry // nil before the first Wait and after Close
}

// Wait returns when another Try of the claim may be granted, or the latch may have opened.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, err
	}
	refused, ok := last.Ahead.(ahead)
	if !ok && !w.sleeper.latch {
		return driver.Outcome{}, nil // not an answer of this Engine: only another Try shows the state
	}
	if w.entry == nil {
		w.entry = w.engine.enter(w.sleeper.claim.Name)
		w.engine.hub.join(w.entry, w.sleeper)
		if w.sleeper.latch {
			return driver.Outcome{}, nil
		}
	}
	w.entry.sleep(w.sleeper, refused.kept)
	defer w.entry.awake(w.sleeper)
	w.engine.hub.hurry(w.entry, w.sleeper)
	select {
	case <-w.sleeper.ready:
		return driver.Outcome{}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

// Close ends the wait.
func (w *waiter) Close() {
	if w.entry != nil {
		w.engine.hub.part(w.entry, w.sleeper)
		w.engine.leave(w.entry)
		w.entry = nil
	}
}

// sleep begins a wait. The wait ends at once if the document that is known grants the claim.
func (n *entry) sleep(s *sleeper, kept bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-s.ready:
	default:
	}
	s.waits, s.kept = true, kept
	now := time.Now()
	s.wakeReady(n.now(now), now)
}

// awake ends a wait.
func (n *entry) awake(s *sleeper) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s.waits = false
}

// wakeReady wakes the sleepers for which another Try may be granted at the time `now`. The mutex of n
// is held.
func (n *entry) wakeReady(now time.Time) {
	if len(n.sleepers) == 0 {
		return
	}
	d := n.now(now)
	for _, s := range n.sleepers {
		s.wakeReady(d, now)
	}
}

// wakeReady ends the wait if another Try may be granted at the time `now`, when the document is d.
func (s *sleeper) wakeReady(d *document.Document, now time.Time) {
	if s.waits && !s.readyAt(d).After(now) {
		s.wake()
	}
}

// wake ends the wait.
func (s *sleeper) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// hub looks at the documents of names for which somebody waits, and wakes the waiters. It runs while
// there are waiters. If the store is a Watcher, it watches, and goes on for the time `linger`.
type hub struct {
	engine  *Engine
	watcher Watcher // nil if the store does not watch

	mu       sync.Mutex
	names    map[*entry]*plan
	changed  chan struct{} // capacity 1: something is due sooner
	running  bool
	watching context.CancelFunc // ends the watch; nil if there is none
	idle     *time.Timer        // ends the watch some time after the last waiter has left
	live     bool               // the watch misses no change
	draining int
}

// plan says when the hub looks at a document again.
type plan struct {
	due      time.Time
	pause    time.Duration
	revision uint64 // at the last look
	reported bool   // the watch has reported a change since then
}

func (h *hub) init(e *Engine) {
	h.engine, h.names, h.changed = e, map[*entry]*plan{}, make(chan struct{}, 1)
	h.watcher, _ = e.store.(Watcher)
}

// join adds a sleeper.
func (h *hub) join(n *entry, s *sleeper) {
	n.mu.Lock()
	n.sleepers = append(n.sleepers, s)
	n.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names[n] == nil {
		h.names[n] = &plan{due: time.Now().Add(pollLeast), pause: pollLeast}
		h.kick()
	}
	if !h.running {
		h.running = true
		h.engine.group.Go(h.run)
	}
	if h.watcher == nil {
		return
	}
	if h.idle != nil {
		h.idle.Stop()
	}
	if h.watching == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.watching = cancel
		h.engine.group.Go(func() { h.watch(ctx) })
	}
}

// part removes a sleeper.
func (h *hub) part(n *entry, s *sleeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.remove(s) {
		delete(h.names, n)
	}
	if len(h.names) == 0 {
		h.kick()
		h.endWatch()
	}
}

// remove removes a sleeper, and reports whether it was the last.
func (n *entry) remove(s *sleeper) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.Index(n.sleepers, s)
	n.sleepers = slices.Delete(n.sleepers, at, at+1)
	return len(n.sleepers) == 0
}

// endWatch ends the watch, some time later unless the Engine drains. The mutex is held.
func (h *hub) endWatch() {
	if h.watching == nil {
		return
	}
	if h.draining > 0 {
		h.stopWatch()
		return
	}
	if h.idle != nil {
		h.idle.Reset(linger)
		return
	}
	h.idle = time.AfterFunc(linger, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.names) == 0 {
			h.stopWatch()
		}
	})
}

// stopWatch ends the watch. The mutex is held.
func (h *hub) stopWatch() {
	if h.watching != nil {
		h.watching()
		h.watching, h.live = nil, false
	}
	if h.idle != nil {
		h.idle.Stop()
		h.idle = nil
	}
}

// drains adds to the number of calls of Drain. While there are any, nothing lingers.
func (h *hub) drains(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining += n
	if h.draining > 0 && len(h.names) == 0 {
		h.stopWatch()
	}
}

// hurry makes the hub look soon, because a waiter has begun to wait.
func (h *hub) hurry(n *entry, s *sleeper) {
	o := n.outlook(h.isLive(), s)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.names[n]
	if p == nil {
		return
	}
	due := o.ready
	if o.polls {
		due = earlier(due, time.Now().Add(min(cmp.Or(o.pause, pollLeast), cmp.Or(p.pause, pollLeast))))
	}
	if due.Before(p.due) {
		p.due = due
		h.kick()
	}
}

// kick makes the hub compute again when something is due. The mutex may be held.
func (h *hub) kick() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

func (h *hub) isLive() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live
}

// run looks at documents when they are due, until nobody waits.
func (h *hub) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next, ok := h.due()
		if !ok {
			return
		}
		if len(due) > 0 {
			time.Sleep(h.look(due))
			continue
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-h.changed:
		}
	}
}

// due returns the names whose documents are due, and otherwise when the next is. The result `ok` is
// false if nobody waits; then the hub does not run any more.
func (h *hub) due() (due []*entry, next time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.names) == 0 {
		h.running = false
		return nil, next, false
	}
	now := time.Now()
	for n, p := range h.names {
		if !p.due.After(now) {
			due = append(due, n)
		} else if next.IsZero() || p.due.Before(next) {
			next = p.due
		}
	}
	return due, next, true
}

// look looks at documents, wakes those who are ready, and plans the next look. It returns how long the
// hub must pause.
func (h *hub) look(due []*entry) (pause time.Duration) {
	live := h.isLive()
	var read []*entry
	for _, n := range due {
		if n.wantsRead(live, h.reportedSince(n)) {
			read = append(read, n)
		}
	}
	calls := h.read(read)
	for _, n := range due {
		if h.engine.lookForDepartures(n) {
			n.wakeAll()
		}
		h.replan(n, live)
	}
	return time.Duration(calls) * pollGap
}

// reportedSince reports whether a change of the document was reported since the last look.
func (h *hub) reportedSince(n *entry) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.names[n]
	if p == nil {
		return false
	}
	reported := p.reported
	p.reported = false
	return reported
}

// wantsRead reports whether a look must read the document. If not, it wakes those who are ready.
func (n *entry) wantsRead(live, reported bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !live || reported || !n.usable || time.Since(n.looked) >= watchedMost {
		return true
	}
	n.wakeReady(time.Now())
	return slices.ContainsFunc(n.sleepers, func(s *sleeper) bool { return s.waits && s.polled(n.doc) })
}

// read reads documents, and returns how many calls of the store that took. Errors do not matter: the
// next look reads again.
func (h *hub) read(names []*entry) (calls int) {
	e := h.engine
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	b, ok := e.store.(Batcher)
	if !ok {
		background.Each(len(names), pollsAtOnce, func(i int) { _ = e.read(ctx, names[i]) })
		return len(names)
	}
	for chunk := range slices.Chunk(names, e.gets.batch) {
		calls++
		keys := make([]string, len(chunk))
		for i, n := range chunk {
			keys[i] = n.name
		}
		began := e.moment()
		items, err := b.GetAll(ctx, keys)
		if err != nil {
			continue
		}
		read := time.Now()
		for i, n := range chunk {
			_ = e.learn(n, items[i], began, read)
		}
	}
	return calls
}

// replan sets when the hub looks at a document again.
func (h *hub) replan(n *entry, live bool) {
	o := n.outlook(live, n.allSleepers()...)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.names[n]
	if p == nil || p.reported {
		return
	}
	switch {
	case !o.polls:
		p.pause = watchedMost
	case o.pause > 0:
		p.pause = o.pause
	case o.revision != p.revision:
		p.pause = pollLeast
	default:
		p.pause = min(2*max(p.pause, pollLeast), pollMost)
	}
	p.revision = o.revision
	p.due = earlier(time.Now().Add(p.pause), o.ready)
}

// outlook says when the next look at a document is due.
type outlook struct {
	polls    bool          // the watch does not report all that matters
	pause    time.Duration // before the next look, if a claim is the next; 0 if not
	ready    time.Time     // when the first claim that waits is ready, if nothing changes; or later than all looks
	revision uint64
}

// allSleepers returns the sleepers of a name.
func (n *entry) allSleepers() []*sleeper {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.sleepers)
}

// outlook returns the outlook of some sleepers.
func (n *entry) outlook(live bool, sleepers ...*sleeper) outlook {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	o, d := outlook{ready: now.Add(2 * watchedMost), revision: n.doc.Revision}, n.now(now)
	for _, s := range sleepers {
		if !s.waits {
			continue
		}
		if ready := s.readyAt(d); ready.After(now) {
			o.ready = earlier(o.ready, ready)
		}
		if live && !s.polled(d) {
			continue
		}
		o.polls = true
		if !s.latch && d.Next(s.claim) && len(d.Grants) > 0 {
			held := now.Sub(d.Grants[0].Since)
			o.pause = min(max(held/pollFraction, pollFirst), pollMost)
		}
	}
	return o
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// watch watches until ctx ends.
func (h *hub) watch(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		retry.Sleep(ctx, retry.Delay(failures, watchDelay))
		err := h.watcher.Watch(ctx, func() {
			failures = 0
			h.setLive(ctx, true)
		}, h.reported)
		h.setLive(ctx, false)
		if errors.Is(err, errors.ErrUnsupported) {
			<-ctx.Done()
		}
	}
}

// setLive records whether the watch misses no change from now on. What it may have missed is read.
func (h *hub) setLive(ctx context.Context, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return // another watch may have begun
	}
	h.live = live
	for _, p := range h.names {
		p.due, p.reported = time.Time{}, true
	}
	h.kick()
}

// reported records that a document has changed.
func (h *hub) reported(name string, v Version) {
	n := h.engine.known(name)
	if n == nil {
		return
	}
	defer h.engine.leave(n)
	n.mu.Lock()
	same := n.version == v
	n.usable = n.usable && same
	n.reported, n.reportedAt = v, h.engine.moment()
	n.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.names[n]; p != nil && !same {
		p.due, p.reported = time.Time{}, true
		h.kick()
	}
}
