package ordered

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// Renew extends the session, with one call for all concurrent callers, and checks that the
// entries of cs exist. The result of a claim whose session has ended, or whose entry was
// removed, is a *driver.GoneError.
func (e *Engine) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
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
			answers[i].Err = e.confirmMissing(ctx, k)
		}
		if answers[i].Err == nil {
			answers[i].ValidFor = min(s.remaining(start), s.ttl) // less than s.ttl if another caller extended the session before this Renew began
		}
	}
	if err == nil {
		e.sweep(ctx, s)
	}
	return answers, nil
}

// entriesOf returns an entry for each element of `claims`, in the same order. A reader beside
// its writer has the entry of the writer. The entry for an element that is nil is the zero
// Entry.
func (e *Engine) entriesOf(claims []*claim) []Entry {
	entries := make([]Entry, len(claims))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, k := range claims {
		if k != nil {
			k = cmp.Or(k.writer, k)
			entries[i] = Entry{Name: k.name, Order: k.order, Label: k.label, Session: k.session}
		}
	}
	return entries
}

// known returns what the Engine knows about each of `cs`. An element of the result is nil if
// the Engine does not know the claim, if a release of the claim has begun, or if the claim
// belongs to an earlier session. `some` is true if at least one element is not nil.
func (e *Engine) known(cs []driver.Claim) (claims []*claim, some bool) {
	claims = make([]*claim, len(cs))
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range cs {
		k := e.claims[claimKey{cs[i].Name, idOf(cs[i].Owner)}]
		if k != nil && !k.releasing && k.session == e.session.id {
			claims[i], some = k, true
		}
	}
	return claims, some
}

// entryKey returns the key of the claim that made the entry of k: the key of the writer if k is
// a reader beside its writer, else the key of k.
func (k *claim) entryKey() claimKey {
	if k.writer != nil {
		return k.writer.claimKey
	}
	return k.claimKey
}

// confirmMissing reads the queue of k after Store.Has did not find the entry of k. It returns
// nil if the entry exists. If the entry does not exist, the error is a *driver.GoneError with
// the reason.
func (e *Engine) confirmMissing(ctx context.Context, k *claim) error {
	queue, err := e.store.Queue(ctx, k.name, 0, true)
	switch {
	case err != nil:
		return err
	case Find(queue, k.entryKey().id) >= 0:
		return nil
	}
	e.mu.Lock()
	if k.pendingTries == 0 && e.claims[k.claimKey] == k { // else a Try may be making an entry now
		delete(e.claims, k.claimKey)
	}
	e.mu.Unlock()
	if forced := e.forced(ctx, k.entryKey()); forced != nil {
		return forced
	}
	if len(queue) > 0 && queue[0].Label.Kind != Reader && queue[0].Label.Kind != Permit {
		note, _, _ := queue[0].parseNote()
		return gone(driver.ReasonNotOwner, "the entry was removed, and another owner holds the name: "+note)
	}
	return gone(driver.ReasonDeleted, "the entry was removed by somebody else")
}

// Release removes the entry of c. If c.AtLeast is set, and the Store is a Keeper, the entry
// stays for the time c.AtLeast. If readers share the entry, the entry stays until these readers
// are released. If the store does not answer the Release, a later renewal of another claim
// removes the entry, but not before c.AtLeast has passed.
func (e *Engine) Release(ctx context.Context, c driver.Claim) error {
	if err := ctx.Err(); err != nil {
		return unsent.Error(err)
	}
	k, act := e.beginRelease(&c)
	if act == nil {
		if k == nil {
			return e.releaseUnknown(ctx, claimKey{c.Name, idOf(c.Owner)})
		}
		return nil
	}
	there, err := act(ctx, k.session, k.name, k.label)
	e.endRelease(k, err)
	switch {
	case err != nil && !errors.Is(err, driver.ErrGone):
		return err
	case err == nil && !there:
		return cmp.Or(e.forced(ctx, k.entryKey()), none())
	case err != nil:
		return none()
	}
	return nil
}

// releaseUnknown returns the error for the release of a claim that the Engine does not know. A
// renewal may have found that the entry is missing, and forgotten the claim, just before the
// release. Then the store may still have the reason.
func (e *Engine) releaseUnknown(ctx context.Context, key claimKey) error {
	if e.current().id == 0 { // the claim has ended with its session
		return none()
	}
	return cmp.Or(e.forced(ctx, key), none())
}

// beginRelease records that c is being released. It returns the claim that has the entry, and
// the function that releases this claim in the Store. The function is nil if the Store has
// nothing to do. If c is a reader, and other claims still need the entry that it shares, only
// the function is nil. The returned claim is nil, too, if the Engine does not know c and no Try
// of c was interrupted, or if c was released before and its readers keep the entry.
func (e *Engine) beginRelease(c *driver.Claim) (*claim, func(context.Context, int64, string, Label) (bool, error)) {
	m := labelOf(c)
	key := claimKey{c.Name, m.ID}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.claims[key]
	switch {
	case k == nil && c.Indeterminate && e.session.id != 0:
		k = &claim{claimKey: key, label: m, session: e.session.id} // an interrupted Try may have made an entry
	case k == nil:
		return nil, nil
	case k.writer != nil && !k.leave():
		delete(e.claims, key)
		return k, nil
	case k.writer != nil:
		k = k.writer
	case k.leftToReaders:
		return nil, nil
	}
	act := e.store.Remove
	keeper, keeps := e.store.(Keeper)
	switch k.releasing, k.keepUntil = true, e.clock.Now()+c.AtLeast; {
	case k.activeReaders() > 0:
		act = e.store.Share
	case keeps && c.AtLeast > 0:
		kept := *c
		kept.Owner += driver.KeptOwner
		act = func(ctx context.Context, session int64, name string, m Label) (bool, error) {
			return keeper.Keep(ctx, session, name, m, noteOf(&kept), c.AtLeast)
		}
	}
	k.pendingReleases++
	return k, act
}

// endRelease records the end of a release of k. If the release failed, nothing else changes.
// Otherwise the entry belongs to the readers that still hold. If no reader holds any more, the
// Engine forgets k and its readers.
func (e *Engine) endRelease(k *claim, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k.pendingReleases--; err != nil && !errors.Is(err, driver.ErrGone) {
		return
	}
	if k.activeReaders() > 0 {
		k.leftToReaders = true
		return
	}
	for _, of := range append(k.readers, k) {
		if e.claims[of.claimKey] == of {
			delete(e.claims, of.claimKey)
		}
	}
}
