package versioned

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/document"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

const (
	// callFor bounds a call of the store for several callers.
	callFor = 4 * time.Second
	// callersMost is how many calls one flight has at most.
	callersMost = 200
	// flightsMost is how many flights a name has at most. There is more than one only while the store
	// is silent.
	flightsMost = 3
	// silence is after which time without an answer a caller begins another flight, if four round trips
	// are not longer.
	silence = 50 * time.Millisecond
	// conflictsFree is how many conflicts a flight has before it pauses, and conflictDelay is the longest
	// pause. If its calls only begin to wait, it pauses for some round trips after each, and for
	// conflictTrips at most.
	conflictsFree = 3
	conflictDelay = 20 * time.Millisecond
	conflictTrips = 6
	// marksMost is how often a try that is refused attempts to write that it waits.
	marksMost = 2
	// After streakMost writes of one process in a row, flights leave a gap of gapTrips round trips.
	// Another process needs two of them to read and to write. If another process has written within
	// the last othersTrips round trips, the gap comes after streakShort writes.
	streakMost  = 100
	streakShort = 4
	gapTrips    = 3
	othersTrips = 300
)

// urgency says which calls come first in a flight.
type urgency bool

const (
	early urgency = true // those that keep or end a lease
	late  urgency = false
)

// change says what a call has changed in a document.
type change int

const (
	unchanged change = iota
	joins            // a claim waits, or goes on to wait
	keeps            // a lease is renewed or ends, or a claim does not wait any more
	grants           // a claim is granted, or a number is set
)

// op is one call about a name.
type op struct {
	ctx     context.Context
	owner   string // of the claim that the call tries to grant; "" for another call
	urgent  urgency
	since   moment
	do      func(d *document.Document, now time.Time) change // may run several times; the last result counts
	outcome chan error                                       // capacity 1
}

// call lets a flight call `do` with a copy of the document, and writes that copy if `do` reports a
// change. If the result is nil, the last call of `do` was the one that counts. Otherwise `do` may
// still run, and the caller must not look at what it has set. The mutex of n is held in `do`.
func (e *Engine) call(ctx context.Context, n *entry, urgent urgency, do func(*document.Document, time.Time) change) error {
	return e.run(n, &op{ctx: ctx, urgent: urgent, do: do})
}

// run does what call does.
func (e *Engine) run(n *entry, o *op) error {
	ctx := o.ctx
	if err := ctx.Err(); err != nil {
		return unsent.Error(err)
	}
	o.since, o.outcome = e.moment(), make(chan error, 1)
	if n.board(o) {
		e.fly(n, o)
	}
	select {
	case err := <-o.outcome:
		return err
	default:
	}
	slow := time.NewTimer(max(silence, 4*e.roundTrip()))
	defer slow.Stop()
	for {
		select {
		case err := <-o.outcome:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-slow.C:
			if n.another() {
				e.group.Go(func() { e.flyAll(n) })
			}
		}
	}
}

// board adds a call to those of the next flight. If there is no flight, it returns true: then the
// caller must make one for this call.
func (n *entry) board(o *op) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flights > 0 {
		n.calls = append(n.calls, o)
		return false
	}
	n.flights++
	return true
}

// another reports whether the caller must begin one more flight, because calls wait for one that the
// store does not answer.
func (n *entry) another() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.calls) == 0 || n.flights == flightsMost {
		return false
	}
	n.flights++
	return true
}

// take adds calls that wait for a flight to a batch, up to callersMost: those first that keep or end a
// lease. The mutex of n is held.
func (n *entry) take(batch []*op) []*op {
	for _, urgent := range []urgency{early, late} {
		left := n.calls[:0]
		for _, o := range n.calls {
			if o.urgent == urgent && len(batch) < callersMost {
				batch = append(batch, o)
			} else {
				left = append(left, o)
			}
		}
		clear(n.calls[len(left):])
		n.calls = left
	}
	return batch
}

// next returns the calls of the next flight. If there are none, the series of flights has ended.
func (n *entry) next() []*op {
	n.mu.Lock()
	defer n.mu.Unlock()
	batch := n.take(nil)
	if len(batch) == 0 {
		n.flights--
	}
	return batch
}

// more adds calls that have come meanwhile to those of a flight that begins anew.
func (n *entry) more(batch []*op) []*op {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.take(batch)
}

// fly makes a flight for one call, in the goroutine of its caller. Another goroutine goes on if the
// flight must begin anew, and makes the flights of calls that have come meanwhile.
func (e *Engine) fly(n *entry, o *op) {
	batch := []*op{o}
	e.letOthersWrite(o.ctx, n)
	if tried, again := e.attempt(n, batch, false); again {
		e.group.Go(func() {
			e.serve(n, batch, 1, tried)
			e.flyAll(n)
		})
		return
	}
	n.mu.Lock()
	more := len(n.calls) > 0
	if !more {
		n.flights--
	}
	n.mu.Unlock()
	if more {
		e.group.Go(func() { e.flyAll(n) })
	}
}

// flyAll makes flights until no call waits for one.
func (e *Engine) flyAll(n *entry) {
	for batch := n.next(); len(batch) > 0; batch = n.next() {
		e.letOthersWrite(context.Background(), n)
		e.serve(n, batch, 0, unchanged)
	}
}

// serve makes one flight: it reads if it must, applies all calls, and writes. It repeats that as long
// as others write at the same time, with the calls that come meanwhile. There were some conflicts
// before, and `tried` is what the last attempt would have changed.
func (e *Engine) serve(n *entry, batch []*op, conflicts int, tried change) {
	for again := true; again; conflicts++ {
		if conflicts > 0 {
			retry.Sleep(context.Background(), e.afterConflict(conflicts-1, tried))
			batch = n.more(batch)
		}
		if batch = stillThere(batch); tried == joins && conflicts > marksMost {
			batch = e.answerRefused(n, batch)
		}
		if len(batch) == 0 {
			return
		}
		tried, again = e.attempt(n, batch, conflicts > 0)
	}
}

// flightContext returns the context of an attempt: that of the caller, if there is only one.
func flightContext(batch []*op) (context.Context, context.CancelFunc) {
	if len(batch) == 1 {
		return context.WithTimeout(batch[0].ctx, callFor)
	}
	return context.WithTimeout(context.Background(), callFor)
}

// answerRefused reads, and answers the tries that are refused, without a write. Their claims have no
// mark and no place then, and ask again. It returns the other calls.
func (e *Engine) answerRefused(n *entry, batch []*op) []*op {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := flightContext(batch)
	defer cancel()
	if e.read(ctx, n) != nil {
		return batch
	}
	if made := e.apply(n, batch); made.change > joins || !made.certain {
		return batch
	}
	left := batch[:0]
	for _, o := range batch {
		if o.urgent == late {
			o.outcome <- nil
		} else {
			left = append(left, o)
		}
	}
	return left
}

// afterConflict returns the pause after a conflict, of which there were some before. Calls of
// claims that begin to wait let all others go first.
func (e *Engine) afterConflict(before int, tried change) time.Duration {
	if tried == joins {
		trips := int64(min(before+2, conflictTrips))
		return rand.N(min(time.Duration(trips*e.trip.Load()), conflictDelay) + 1) //nolint:gosec // spreads writes, protects nothing
	}
	if before < conflictsFree {
		return 0
	}
	return rand.N(min(time.Millisecond<<min(before-conflictsFree, 6), conflictDelay)) //nolint:gosec // as above
}

// stillThere returns the calls whose callers wait. The others get their answer: nothing was written.
func stillThere(batch []*op) []*op {
	left := make([]*op, 0, len(batch))
	for _, o := range batch {
		if err := o.ctx.Err(); err != nil {
			o.outcome <- unsent.Error(err)
			continue
		}
		left = append(left, o)
	}
	return left
}

// attempt applies calls, writes, and answers all of them, unless another process has written
// meanwhile: then `again` is true, and `tried` says what the calls would have changed.
func (e *Engine) attempt(n *entry, batch []*op, read bool) (tried change, again bool) {
	ctx, cancel := flightContext(batch)
	defer cancel()
	defer n.land()
	tried, again, err := e.write(ctx, n, batch, read)
	if !again {
		for _, o := range batch {
			o.outcome <- err
		}
	}
	return tried, again
}

// write applies calls and writes. If `again` is false, the error is that of all calls.
func (e *Engine) write(ctx context.Context, n *entry, batch []*op, read bool) (tried change, again bool, err error) {
	if read = read || !n.canGuess(); read {
		if err := e.read(ctx, n); err != nil {
			return unchanged, false, unsent.Error(err)
		}
	}
	e.lookForDepartures(n)
	made := e.apply(n, batch)
	if made.change == unchanged && !made.certain { // only a read may say no
		if err := e.read(ctx, n); err != nil {
			return unchanged, false, unsent.Error(err)
		}
		e.lookForDepartures(n)
		made = e.apply(n, batch)
	}
	if made.change == unchanged {
		return unchanged, !made.certain, nil // not certain: another flight has found another document meanwhile
	}
	n.sends(batch, made.write.At)
	began := time.Now()
	v, err := e.puts.do(ctx, made.write)
	ended := time.Now()
	switch {
	case err == nil:
		e.measure(began, ended)
		n.answered(batch, made.write.At)
		n.wrote(made, v, e.moment(), ended)
		return made.change, false, nil
	case errors.Is(err, ErrVersion):
		n.answered(batch, made.write.At)
		n.outdated()
		return made.change, true, nil
	default:
		n.outdated()
		return made.change, false, err
	}
}

// sends records that a write is under way that may grant claims, if the document still has a version.
func (n *entry) sends(batch []*op, at Version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range batch {
		if o.owner != "" {
			n.sent[o.owner] = append(n.sent[o.owner], at)
		}
	}
}

// answered records that the store has executed such a write, or never will.
func (n *entry) answered(batch []*op, at Version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range batch {
		sent := n.sent[o.owner]
		if i := slices.Index(sent, at); i >= 0 {
			sent = slices.Delete(sent, i, i+1)
		}
		if n.sent[o.owner] = sent; len(sent) == 0 {
			delete(n.sent, o.owner)
		}
	}
}

// canGuess reports whether a flight may begin without a read: the document is known, and no other
// flight may be about to write.
func (n *entry) canGuess() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.usable && n.flights == 1
}

// applied is what apply returns.
type applied struct {
	change  change
	certain bool // the document was new enough for all calls to be answered without a write
	began   moment
	write   Write
	after   *document.Document // after the write
}

// apply applies calls to a copy of the document. If that changes anything, it makes the write.
func (e *Engine) apply(n *entry, batch []*op) applied {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	d := n.doc.Clone()
	d.Revision = max(d.Revision, n.highest) + 1
	if n.version == "" {
		d.Revision = max(d.Revision, uint64(max(e.wall(now).UnixMicro(), 1)))
	}
	d.Purge(now)
	n.dismiss(d, now)
	made := applied{certain: n.usable, began: e.moment(), after: d}
	for _, o := range batch {
		made.change = max(made.change, o.do(d, now))
		if n.confirmed < o.since {
			made.certain = false
		}
	}
	if made.change != unchanged {
		n.keepPlaces(d, now)
		made.write = Write{Name: n.name, Data: encode(d, now, e.wall(now)), At: n.version, Durable: made.change == grants, Waited: waited(n.doc, d)}
	}
	return made
}

// wrote records that a document was written, with the Version v.
func (n *entry) wrote(made applied, v Version, found moment, ended time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.version != made.write.At && made.after.Revision <= n.highest {
		return // a later document is known already
	}
	n.streak++
	n.record(made.after, made.write.Data, v, made.began, found, ended)
}

// read reads the document.
func (e *Engine) read(ctx context.Context, n *entry) error {
	moment, began := e.moment(), time.Now()
	i, err := e.gets.do(ctx, n.name)
	if err != nil {
		return err
	}
	ended := time.Now()
	e.measure(began, ended)
	return e.learn(n, i, moment, ended)
}

// measure records how long a call of the store took.
func (e *Engine) measure(began, ended time.Time) {
	old := e.trip.Load()
	e.trip.Store(old + (int64(ended.Sub(began))-old)/4)
}

func (e *Engine) roundTrip() time.Duration { return time.Duration(e.trip.Load()) }

// letOthersWrite leaves a gap if only this process has written for some time, without a pause. It
// would keep others out: they must read first, and so they need twice as long.
func (e *Engine) letOthersWrite(ctx context.Context, n *entry) {
	if trip := e.roundTrip(); n.needsGap(trip) {
		retry.Sleep(ctx, gapTrips*trip)
	}
}

func (n *entry) needsGap(trip time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, most := time.Now(), streakMost
	if now.Sub(n.others) < othersTrips*trip {
		most = streakShort
	}
	paused := now.Sub(n.landed) > gapTrips*trip
	gap := n.streak >= most && !paused
	if gap || paused {
		n.streak = 0
	}
	return gap
}

// land records the end of a flight.
func (n *entry) land() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.landed = time.Now()
}
