package ordered

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
)

// Renew extends the session, with one call for all who do so at a time, and looks whether
// the entries of cs are there. A claim whose session has ended, or whose entry was removed,
// is answered with a *driver.GoneError.
func (e *Engine) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := ctx.Err(); err != nil {
		return nil, notExecuted(err)
	}
	start := e.clock.Read()
	answers := make([]driver.Renewal, len(cs))
	claims, some := e.known(cs)
	if !some {
		for i := range answers {
			answers[i].Err = none()
		}
		return answers, nil
	}
	current := e.current()
	s, err := e.extend(ctx, current, current.ttl/2)
	var there []bool
	if err == nil {
		there, err = e.store.Has(ctx, s.id, e.entriesOf(claims))
	}
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return nil, err
	}
	for i, k := range claims {
		switch {
		case k == nil || err != nil:
			answers[i].Err = none()
		case !there[i]:
			answers[i].Err = e.missing(ctx, k)
		}
		if answers[i].Err == nil {
			answers[i].ValidFor = min(s.rest(start), s.ttl) // it may have been extended before start
		}
	}
	if err == nil {
		e.sweep(ctx, s)
	}
	return answers, nil
}

// entriesOf returns where the claims stand, the zero Entry for each that is nil.
func (e *Engine) entriesOf(claims []*claim) []Entry {
	entries := make([]Entry, len(claims))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, k := range claims {
		if k != nil {
			k = cmp.Or(k.writer, k)
			entries[i] = Entry{Name: k.name, Order: k.order, Mark: k.mark, Session: k.session}
		}
	}
	return entries
}

// known returns what is known of cs, nil for each of which there is nothing, and whether
// there is something of any.
func (e *Engine) known(cs []driver.Claim) (claims []*claim, some bool) {
	claims = make([]*claim, len(cs))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range cs {
		k := e.claims[place{cs[i].Name, idOf(cs[i].Owner)}]
		if k != nil && !k.over && k.session == e.session.id {
			claims[i], some = k, true
		}
	}
	return claims, some
}

// entry is where the claim stands in the store: on the entry of its writer, if it has
// none of its own.
func (k *claim) entry() place {
	if k.writer != nil {
		return k.writer.place
	}
	return k.place
}

// missing asks once more for the entry of k, of which the store did not say that it is there.
// It returns nil if the entry is there.
func (e *Engine) missing(ctx context.Context, k *claim) error {
	queue, err := e.store.Queue(ctx, k.name, 0, true)
	switch {
	case err != nil:
		return err
	case Find(queue, k.entry().id) >= 0:
		return nil
	}
	e.mu.Lock()
	if k.tries == 0 && e.claims[k.place] == k { // else it may get an entry now
		delete(e.claims, k.place)
	}
	e.mu.Unlock()
	if forced := e.forced(ctx, k.entry()); forced != nil {
		return forced
	}
	if len(queue) > 0 && queue[0].Mark.Kind != Reader && queue[0].Mark.Kind != Permit {
		return gone(driver.ReasonNotOwner, "the entry was removed, and another owner holds the name: "+queue[0].people())
	}
	return gone(driver.ReasonDeleted, "the entry was removed by somebody else")
}

// Release removes the entry of c, keeps it for c.AtLeast, or leaves it to the readers that
// stand on it. Until the store has answered, the entry is removed with the next renewal of
// another claim, too, but not within that time.
func (e *Engine) Release(ctx context.Context, c driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return notExecuted(err)
	}
	k, act := e.end(&c)
	if act == nil {
		if k == nil {
			return e.forgotten(ctx, place{c.Name, idOf(c.Owner)})
		}
		return nil
	}
	there, err := act(ctx, k.session, k.name, k.mark)
	e.ended(k, err)
	switch {
	case err != nil && !errors.Is(err, driver.ErrGone):
		return err
	case err == nil && !there:
		return cmp.Or(e.forced(ctx, k.entry()), none())
	case err != nil:
		return none()
	}
	return nil
}

// forgotten is the answer to the release of a claim of which nothing is known. A renewal
// may have found its entry missing just now, whose answer the holder did not have when it
// released the claim: the store knows the reason still.
func (e *Engine) forgotten(ctx context.Context, at place) error {
	if e.current().id == 0 { // the claim has ended with its session
		return none()
	}
	return cmp.Or(e.forced(ctx, at), none())
}

// end begins to release a claim. It returns whose entry is concerned, and what is to be
// done with it: nothing where there is no claim, or where others still need its entry.
func (e *Engine) end(c *driver.Claim) (*claim, func(context.Context, int64, string, Mark) (bool, error)) {
	m := markOf(c)
	at := place{c.Name, m.ID}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.claims[at]
	switch {
	case k == nil && c.Indeterminate && e.session.id != 0:
		k = &claim{place: at, mark: m, session: e.session.id} // a try may have been cut off
	case k == nil:
		return nil, nil
	case k.writer != nil && !k.leave():
		delete(e.claims, at)
		return k, nil
	case k.writer != nil:
		k = k.writer
	case k.left:
		return nil, nil
	}
	act := e.store.Remove
	keeper, keeps := e.store.(Keeper)
	switch k.over, k.until = true, e.clock.Now()+c.AtLeast; {
	case k.readersLeft() > 0:
		act = e.store.Share
	case keeps && c.AtLeast > 0:
		kept := *c
		kept.Owner += driver.KeptOwner
		act = func(ctx context.Context, session int64, name string, m Mark) (bool, error) {
			return keeper.Keep(ctx, session, name, m, noteOf(&kept), c.AtLeast)
		}
	}
	k.calls++
	return k, act
}

// ended takes note of the answer to a release.
func (e *Engine) ended(k *claim, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.calls--; err != nil && !errors.Is(err, driver.ErrGone) {
		return
	}
	if k.readersLeft() > 0 {
		k.left = true
		return
	}
	for _, of := range append(k.readers, k) {
		if e.claims[of.place] == of {
			delete(e.claims, of.place)
		}
	}
}
