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

// Engine makes a driver.Backend of a Store, but for Info. Its methods may be called from
// several goroutines at once.
type Engine struct {
	store Store
	clock *clock.Clock
	turn  chan struct{} // held by who opens or extends the session for a Try

	mu        sync.Mutex
	session   session
	keeping   *keepAlive // under way; nil if none is
	swept     sweeping   // the last one
	claims    map[place]*claim
	listeners []*func(seq uint64)

	watches background.Group
}

// New returns an Engine over store. It does no I/O.
func New(store Store) *Engine {
	return &Engine{store: store, clock: clock.New(), turn: make(chan struct{}, 1), claims: make(map[place]*claim)}
}

// attempt is a Try under way.
type attempt struct {
	*driver.Claim
	mark  Mark
	start clock.Moment
	at    session
	claim *claim
}

// Try makes an entry for c, unless it has one, and grants c if the queue says so. A claim
// with NoQueue gets an entry only where it seems to be granted.
func (e *Engine) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return driver.Outcome{}, notExecuted(err)
	}
	t := attempt{Claim: &c, mark: markOf(&c), start: e.clock.Read()}
	if out, ok, err := e.tryBeside(ctx, &t); ok || err != nil {
		return out, err
	}
	for range 2 {
		var err error
		if t.at, err = e.ready(ctx, c.TTL); err != nil {
			return driver.Outcome{}, err
		}
		t.claim = e.begin(&t)
		out, err := e.ask(ctx, &t)
		e.tried(t.claim, err)
		if !errors.Is(err, driver.ErrGone) {
			return e.keptFor(ctx, out), err
		}
		e.lose(t.at.id) // the claim had no entry: it may have one in the next session
	}
	return driver.Outcome{}, notExecuted(errors.New("the session in the store ended twice"))
}

// begin takes note of a claim before anything of it may be in the store.
func (e *Engine) begin(t *attempt) *claim {
	at := place{t.Name, t.mark.ID}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.claims[at]
	if k == nil || k.writer != nil {
		k = &claim{place: at, mark: t.mark, session: t.at.id, client: t.Client, seq: t.Seq}
		e.claims[at] = k
	}
	k.over = false
	k.tries++
	return k
}

// tried takes note of the end of a Try. A claim that no Try can have made an entry for is
// forgotten: nobody releases it.
func (e *Engine) tried(k *claim, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.tries--
	k.unsure = k.unsure || err != nil && !errors.Is(err, driver.ErrNotExecuted)
	if k.tries == 0 && err != nil && !k.unsure && k.order == 0 && e.claims[k.place] == k {
		delete(e.claims, k.place)
	}
}

// ask gets the queue, with an entry for the claim where that is possible, and answers.
func (e *Engine) ask(ctx context.Context, t *attempt) (driver.Outcome, error) {
	queue, i, err := e.queueOf(ctx, t)
	if errors.Is(err, driver.ErrMismatch) { // of a claim that may have an entry by now
		if failed := e.takeBack(ctx, t); failed != nil {
			return driver.Outcome{}, failed
		}
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if i >= 0 {
		return e.answer(ctx, t, queue, i)
	}
	// A claim with NoQueue, and others are there.
	err = mismatch(t.Name, queue, t.mark.Kind)
	ahead := blocked(queue, t.mark)
	if err != nil || len(ahead) > 0 {
		e.forget(t.claim)
		return refusal(t, queue, ahead, nil), err
	}
	if queue, err = e.store.Enqueue(ctx, t.at.id, t.Name, t.mark, noteOf(t.Claim), false); err != nil {
		return driver.Outcome{}, err
	}
	if i = Find(queue, t.mark.ID); i < 0 {
		return driver.Outcome{}, errVanished(t.Name)
	}
	return e.answer(ctx, t, queue, i)
}

// queueOf returns the queue and the index of the claim's entry in it, which is -1 only for
// a claim with NoQueue.
func (e *Engine) queueOf(ctx context.Context, t *attempt) (queue []Entry, i int, err error) {
	e.mu.Lock()
	order := t.claim.order
	e.mu.Unlock()
	if order > 0 { // to read is cheaper than to write, and nothing behind the entry matters
		if queue, err = e.store.Queue(ctx, t.Name, order, true); err != nil {
			return nil, -1, err
		}
		if i = Find(queue, t.mark.ID); i >= 0 && queue[i].Order > 0 { // else its creation was not answered
			return queue, i, nil
		}
	}
	if queue, err = e.store.Enqueue(ctx, t.at.id, t.Name, t.mark, noteOf(t.Claim), t.NoQueue); err != nil {
		return nil, -1, err
	}
	if i = Find(queue, t.mark.ID); i < 0 && !t.NoQueue {
		return nil, -1, errVanished(t.Name)
	}
	return queue, i, nil
}

// answer says what the queue means for the claim, whose entry is queue[i].
func (e *Engine) answer(ctx context.Context, t *attempt, queue []Entry, i int) (driver.Outcome, error) {
	before, mine := queue[:i], queue[i]
	err := mismatch(t.Name, before, t.mark.Kind)
	ahead := blocked(before, t.mark)
	if err != nil || len(ahead) > 0 && t.NoQueue {
		if failed := e.takeBack(ctx, t); failed != nil {
			return driver.Outcome{}, failed
		}
		return refusal(t, queue, ahead, nil), err
	}
	s := e.saw(t.claim, mine, len(ahead) == 0)
	switch {
	case s.id != t.at.id:
		return driver.Outcome{}, none() // its session has ended meanwhile
	case len(ahead) > 0:
		out := refusal(t, queue, ahead, &mine)
		out.Ahead.(*met).mutexes(before)
		return out, nil
	}
	return grant(t, before, mine, s), nil
}

// grant is the answer to a claim that holds.
func grant(t *attempt, before []Entry, mine Entry, s session) driver.Outcome {
	out := driver.Outcome{Granted: true, Token: tokenOf(mine.Order), ValidFor: validFor(t, s)}
	if t.mark.Kind == Permit {
		if n := PermitsOf(before, t.mark); n != t.Permits {
			out.Permits = n
		}
	}
	return out
}

// takeBack removes the entry of a claim that shall not wait. An error does not say that
// nothing was executed: there is an entry.
func (e *Engine) takeBack(ctx context.Context, t *attempt) error {
	_, err := e.store.Remove(ctx, t.at.id, t.Name, t.mark)
	switch {
	case errors.Is(err, driver.ErrNotExecuted):
		return errors.New("an entry was made, and not removed: " + err.Error())
	case err == nil:
		e.forget(t.claim)
	}
	return err
}

// grantOf returns the grant of a claim that was not granted by t, if the queue says so
// now; the zero Outcome if another try is to find out.
func (e *Engine) grantOf(t *attempt, queue []Entry) driver.Outcome {
	i := Find(queue, t.mark.ID)
	if i < 0 || queue[i].Order == 0 || !e.knows(t.claim) {
		return driver.Outcome{}
	}
	before, mine := queue[:i], queue[i]
	if mismatch(t.Name, before, t.mark.Kind) != nil || len(blocked(before, t.mark)) > 0 {
		return driver.Outcome{}
	}
	if s := e.current(); s.id != t.at.id || !e.enough(s, t.TTL) {
		return driver.Outcome{}
	}
	s := e.saw(t.claim, mine, true)
	if s.id != t.at.id { // it has ended meanwhile
		return driver.Outcome{}
	}
	return grant(t, before, mine, s)
}

// knows says that a claim was neither released nor removed by somebody else, as far as that
// was noticed.
func (e *Engine) knows(k *claim) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claims[k.place] == k && !k.over
}

// saw takes note of a claim's entry, and returns the session as it is now.
func (e *Engine) saw(k *claim, mine Entry, granted bool) session {
	e.mu.Lock()
	defer e.mu.Unlock()
	k.order, k.held = mine.Order, granted
	return e.session
}

// validFor is for how long a grant is valid, counted from the start of its Try.
func validFor(t *attempt, s session) time.Duration { return min(s.rest(t.start), t.TTL) }

// refusal is the answer to a claim that has to wait for one of ahead. mine is its entry,
// nil if it has none.
func refusal(t *attempt, queue, ahead []Entry, mine *Entry) driver.Outcome {
	met := &met{by: t, ahead: slices.Clone(ahead)} // the whole queue would stay in memory
	out := driver.Outcome{Ahead: met}
	if mine != nil {
		out.Queued = true
		met.own = mine
	}
	if len(queue) > 0 {
		note, _, owner := queue[0].read()
		out.Holder, met.unnamed = note, queue[0].Order == 0
		if out.Kept = driver.Kept(owner); out.Kept {
			met.kept = queue[0].Session
		}
	}
	return out
}

// keptFor fills in for how long a name stays taken that nobody holds.
func (e *Engine) keptFor(ctx context.Context, out driver.Outcome) driver.Outcome {
	if v, err := e.viewer(ctx); err == nil && out.Kept {
		out.RetryAfter, _ = v.Rest(ctx, out.Ahead.(*met).kept)
	}
	return out
}

// forget drops a claim of which nothing is left in the store.
func (e *Engine) forget(k *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claims[k.place] == k {
		delete(e.claims, k.place)
	}
}

func notExecuted(err error) error { return unsent.Error(err) }

// errVanished says that somebody removed an entry as soon as it was made.
func errVanished(name string) error {
	return fmt.Errorf("the entry for %q was removed as soon as it was made", name)
}
