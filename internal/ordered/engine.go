package ordered

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// Engine has all methods of a driver.Backend except Info. It keeps the locks in a Store. Its
// methods may be called from several goroutines at once.
type Engine struct {
	store        Store
	clock        *clock.Clock
	sessionMutex chan struct{} // full while a Try opens or extends the session; a channel, so that a context can end the wait
	extendMutex  chan struct{} // full while a call extends the session

	mu        sync.Mutex
	session   session
	extended  extension
	lastSweep sweepTime // when sweep last listed the entries of the session
	claims    map[claimKey]*claim
	listeners []*func(seq uint64)

	watches background.Group
}

// New returns an Engine over store. It does no I/O.
func New(store Store) *Engine {
	return &Engine{store: store, clock: clock.New(), sessionMutex: make(chan struct{}, 1), extendMutex: make(chan struct{}, 1), claims: make(map[claimKey]*claim)}
}

// attempt is a Try under way.
type attempt struct {
	*driver.Claim
	label   Label
	began   clock.Moment
	session session
	claim   *claim
}

// Try makes an entry for c, unless c has one, and grants c if no earlier entry excludes c. A
// claim with NoQueue gets an entry only if it would probably be granted.
func (e *Engine) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, unsent.Error(err)
	}
	t := attempt{Claim: &c, label: labelOf(&c), began: e.clock.Read()}
	if out, ok, err := e.tryBeside(ctx, &t); ok || err != nil {
		return out, err
	}
	for range 2 {
		var err error
		if t.session, err = e.ready(ctx, c.TTL); err != nil {
			return driver.Outcome{}, err
		}
		k, withdrawn := e.beginTry(&t)
		if t.claim = k; withdrawn {
			err := e.withdrawAgain(ctx, &t)
			e.endTry(t.claim, err)
			return driver.Outcome{}, err
		}
		out, err := e.ask(ctx, &t)
		e.endTry(t.claim, err)
		if !errors.Is(err, driver.ErrGone) {
			return e.keptFor(ctx, out), err
		}
		e.lose(t.session.id) // the claim has no entry: try it again in the next session
	}
	return driver.Outcome{}, unsent.Error(errors.New("the session in the store ended twice"))
}

// beginTry records a claim before the call that may make its entry. It reports whether an earlier
// Try has withdrawn the claim.
func (e *Engine) beginTry(t *attempt) (k *claim, withdrawn bool) {
	key := claimKey{t.Name, t.label.ID}
	e.mu.Lock()
	defer e.mu.Unlock()
	k = e.claims[key]
	if k == nil || k.writer != nil {
		k = &claim{claimKey: key, label: t.label, session: t.session.id, client: t.Client, seq: t.Seq}
		e.claims[key] = k
	}
	k.releasing = false
	k.pendingTries++
	return k, k.withdrawn
}

// endTry records the end of a Try. If the claim certainly has no entry, endTry forgets the
// claim, because the core does not release such a claim.
func (e *Engine) endTry(k *claim, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.pendingTries--
	k.indeterminate = k.indeterminate || err != nil && !errors.Is(err, driver.ErrNotExecuted)
	if k.pendingTries == 0 && err != nil && !k.indeterminate && k.order == 0 && e.claims[k.claimKey] == k {
		delete(e.claims, k.claimKey)
	}
}

// ask reads the queue and returns the Outcome of the claim. It makes an entry if the claim has
// none, but not for a claim with NoQueue that would have to wait.
func (e *Engine) ask(ctx context.Context, t *attempt) (driver.Outcome, error) {
	queue, i, err := e.queueOf(ctx, t)
	if errors.Is(err, driver.ErrMismatch) { // the claim may have an entry by now
		if failed := e.withdraw(ctx, t); failed != nil {
			return driver.Outcome{}, failed
		}
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if i >= 0 {
		return e.answer(ctx, t, queue, i)
	}
	// The claim has NoQueue, and the queue is not empty.
	err = mismatch(t.Name, queue, t.label.Kind)
	ahead := blocking(queue, t.label)
	if err != nil || len(ahead) > 0 {
		e.forget(t.claim)
		return refusal(t, queue, ahead, nil), err
	}
	if queue, err = e.store.Enqueue(ctx, t.session.id, t.Name, t.label, noteOf(t.Claim), false); err != nil {
		return driver.Outcome{}, err
	}
	if i = Find(queue, t.label.ID); i < 0 {
		return driver.Outcome{}, errVanished(t.Name)
	}
	return e.answer(ctx, t, queue, i)
}

// queueOf returns the queue, and the index `i` of the claim's entry in it. If there is no
// error, `i` is -1 only for a claim with NoQueue. queueOf makes an entry if the claim has none.
// For a claim with NoQueue it does so only if the queue is empty.
func (e *Engine) queueOf(ctx context.Context, t *attempt) (queue []Entry, i int, err error) {
	e.mu.Lock()
	order := t.claim.order
	e.mu.Unlock()
	if order > 0 { // a read is cheaper than a write, and entries behind the claim's own entry do not matter
		if queue, err = e.store.Queue(ctx, t.Name, order, true); err != nil {
			return nil, -1, err
		}
		if i = Find(queue, t.label.ID); i >= 0 && queue[i].Order > 0 { // Order is 0 if the reply to the creation of the entry was lost
			return queue, i, nil
		}
	}
	if queue, err = e.store.Enqueue(ctx, t.session.id, t.Name, t.label, noteOf(t.Claim), t.NoQueue); err != nil {
		return nil, -1, err
	}
	if i = Find(queue, t.label.ID); i < 0 && !t.NoQueue {
		return nil, -1, errVanished(t.Name)
	}
	return queue, i, nil
}

// answer returns the Outcome of a claim whose entry is queue[i].
func (e *Engine) answer(ctx context.Context, t *attempt, queue []Entry, i int) (driver.Outcome, error) {
	before, mine := queue[:i], queue[i]
	err := mismatch(t.Name, before, t.label.Kind)
	ahead := blocking(before, t.label)
	if err != nil || len(ahead) > 0 && t.NoQueue {
		if failed := e.withdraw(ctx, t); failed != nil {
			return driver.Outcome{}, failed
		}
		return refusal(t, queue, ahead, nil), err
	}
	s := e.recordEntry(t.claim, mine, len(ahead) == 0)
	switch {
	case s.id != t.session.id:
		return driver.Outcome{}, none() // its session has ended meanwhile
	case len(ahead) > 0:
		out := refusal(t, queue, ahead, &mine)
		out.Ahead.(*blockers).mutexes(before)
		return out, nil
	}
	return grant(t, before, mine, s), nil
}

// grant returns the Outcome of a claim that holds.
func grant(t *attempt, before []Entry, mine Entry, s session) driver.Outcome {
	out := driver.Outcome{Granted: true, Token: tokenOf(mine.Order), ValidFor: validFor(t, s)}
	if t.label.Kind == Permit {
		if n := PermitsOf(before, t.label); n != t.Permits {
			out.Permits = n
		}
	}
	return out
}

// withdraw removes the entry of a claim that must not wait. It never returns
// driver.ErrNotExecuted, because the Try may have made an entry.
//
// If the store does not answer, it may remove the entry at any later time. So no later Try of the
// claim may be granted: its hold could be removed.
func (e *Engine) withdraw(ctx context.Context, t *attempt) error {
	_, err := e.store.Remove(ctx, t.session.id, t.Name, t.label)
	switch {
	case errors.Is(err, driver.ErrNotExecuted):
		return errors.New("an entry was made, and not removed: " + err.Error())
	case err == nil:
		e.forget(t.claim)
	default:
		e.mu.Lock()
		t.claim.withdrawn = true
		e.mu.Unlock()
	}
	return err
}

// withdrawAgain removes the entry of a claim that was withdrawn before. If that succeeds, the
// error is ErrGone, after which the caller asks with a new claim.
func (e *Engine) withdrawAgain(ctx context.Context, t *attempt) error {
	if err := e.withdraw(ctx, t); err != nil {
		return err
	}
	return none()
}

// grantOf returns the grant of a claim that the Try t has refused. `queue` was read after that
// Try, and must show that the claim holds now. Otherwise grantOf returns the zero Outcome, so
// that another Try finds out.
func (e *Engine) grantOf(t *attempt, queue []Entry) driver.Outcome {
	i := Find(queue, t.label.ID)
	if i < 0 || queue[i].Order == 0 || !e.knows(t.claim) {
		return driver.Outcome{}
	}
	before, mine := queue[:i], queue[i]
	if mismatch(t.Name, before, t.label.Kind) != nil || len(blocking(before, t.label)) > 0 {
		return driver.Outcome{}
	}
	if s := e.current(); s.id != t.session.id || !e.enough(s, t.TTL) {
		return driver.Outcome{}
	}
	s := e.recordEntry(t.claim, mine, true)
	if s.id != t.session.id { // the claim's session has ended meanwhile
		return driver.Outcome{}
	}
	return grant(t, before, mine, s)
}

// knows reports whether the Engine still knows a claim, and no release of the claim has begun.
// The Engine forgets a claim after its release, when another program has removed its entry, or
// when its session has ended.
func (e *Engine) knows(k *claim) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claims[k.claimKey] == k && !k.releasing
}

// recordEntry records the order of the entry of a claim, and whether the claim holds. It
// returns the current session of the Engine.
func (e *Engine) recordEntry(k *claim, mine Entry, granted bool) session {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.order, k.held = mine.Order, granted
	return e.session
}

// validFor returns for how long a grant is valid, counted from the beginning of its Try: for
// the remaining time of the session s, and not longer than the TTL of the claim.
func validFor(t *attempt, s session) time.Duration { return min(s.remaining(t.began), t.TTL) }

// refusal returns the Outcome of a claim that was refused because of the entries in `ahead`.
// `mine` is the entry of the claim, or nil if the claim has none.
func refusal(t *attempt, queue, ahead []Entry, mine *Entry) driver.Outcome {
	found := &blockers{by: t, ahead: slices.Clone(ahead)} // a part of the slice would keep the whole queue in memory
	out := driver.Outcome{Ahead: found}
	if mine != nil {
		out.Queued = true
		found.own = mine
	}
	if len(queue) > 0 {
		note, _, owner := queue[0].parseNote()
		out.Holder, found.holderUnknown = note, queue[0].Order == 0
		if out.Kept = driver.Kept(owner); out.Kept {
			found.kept = queue[0].Session
		}
	}
	return out
}

// keptFor returns `out`. If out.Kept is true, the last holder has released the name, but the
// name stays taken until Claim.AtLeast has passed. Then keptFor also sets RetryAfter to the
// rest of that time.
func (e *Engine) keptFor(ctx context.Context, out driver.Outcome) driver.Outcome {
	if out.Kept {
		out.RetryAfter, _ = e.store.Remaining(ctx, out.Ahead.(*blockers).kept)
	}
	return out
}

// forget drops a claim that has no entry in the store.
func (e *Engine) forget(k *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claims[k.claimKey] == k {
		delete(e.claims, k.claimKey)
	}
}

// errVanished says that another program removed an entry as soon as it was made.
func errVanished(name string) error {
	return fmt.Errorf("the entry for %q was removed as soon as it was made", name)
}
