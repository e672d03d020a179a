package versioned

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/document"
)

// partsMost is how many holders and waiters a document has at most. Each renewal writes all of them.
const partsMost = 1000

// keepsFor is how long after its last Try a place of this process is extended by other writes.
const keepsFor = document.Presence / 2

// moment orders what happens in an Engine. A clock does not: two events may have the same time.
type moment uint64

// moment returns a moment that is later than all before.
func (e *Engine) moment() moment { return moment(e.moments.Add(1)) }

// entry is what an Engine knows about a name, and the calls for that name which are under way.
type entry struct {
	name  string
	users int // calls and waiters; the mutex of the Engine guards it

	mu sync.Mutex

	// The document that the store had when this process last looked or wrote.
	doc       *document.Document // nobody changes it; it has leases that have ended
	live      *document.Document // doc without them; it may be older than doc, see now
	liveOf    *document.Document // doc when live was made
	data      []byte             // what the store has for doc
	version   Version
	usable    bool      // no call has shown that the store has another document
	found     moment    // when the call ended that found or wrote doc; 0 if there was none
	confirmed moment    // when the last call began that has shown that the store has doc
	looked    time.Time // when that call ended

	reported   Version // the last that the watch has reported
	reportedAt moment

	highest uint64            // the largest revision so far
	tokens  uint64            // the largest token so far
	lost    map[string]string // owners whose grants were in a document that the store has lost, with a text

	calls    []*op // those that no flight has taken
	flights  int
	streak   int       // how many writes of this process have followed each other
	others   time.Time // when this process last found a write of another one
	landed   time.Time // when the last flight ended
	sleepers []*sleeper

	departed []string // clients in the document that had departed when this process last asked

	abandoned map[string]time.Time // owners whose tries come too late, until when
	sent      map[string][]Version // for an owner, the conditions of writes without an answer that may grant its claim
	places    map[string]time.Time // owners of this process in the queue, with the time of their last Try
}

// enter returns the entry of a name. The caller calls leave later.
func (e *Engine) enter(name string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.names[name]
	if n == nil {
		n = &entry{name: name, doc: &document.Document{}, abandoned: map[string]time.Time{}, sent: map[string][]Version{}, places: map[string]time.Time{}}
		e.names[name] = n
	}
	n.users++
	return n
}

// known returns the entry of a name, or nil. The caller calls leave later, unless it is nil.
func (e *Engine) known(name string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.names[name]
	if n != nil {
		n.users++
	}
	return n
}

// leave forgets the entry if nobody uses it and there are too many.
func (e *Engine) leave(n *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.users--; n.users > 0 || len(e.names) <= namesMost {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.doc.InUse() && n.flights == 0 && len(n.abandoned) == 0 {
		delete(e.names, n.name)
	}
}

// writtenAt returns the function that decode needs, for an Item that was read at the time `read`.
func (e *Engine) writtenAt(i Item, read time.Time) func(time.Time) time.Time {
	return func(writer time.Time) time.Time {
		if i.Age >= 0 {
			return read.Add(-i.Age)
		}
		// The writer's clock may be behind by the tolerance. A time after `read` cannot be true.
		return read.Add(min(writer.Add(e.tolerance).Sub(e.wall(read)), 0))
	}
}

// learn records what a read has found, which has begun at `began`, and ended at the time `read`.
func (e *Engine) learn(n *entry, i Item, began moment, read time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := i.Version == n.version && bytes.Equal(i.Data, n.data)
	if same && n.found > 0 {
		n.usable, n.confirmed, n.looked = n.isLatest(i.Version, began), max(n.confirmed, began), read
		n.wakeReady(read)
		return nil
	}
	d, err := decode(n.name, i.Data, e.writtenAt(i, read))
	if err != nil {
		n.usable = false
		return err
	}
	if back := d.Revision <= n.doc.Revision && n.found > 0; back && began < n.found {
		return nil // an answer that comes late
	} else if back {
		n.lose(d)
	} else {
		n.keepSights(d)
	}
	if n.flights == 0 || d.Revision > n.doc.Revision+1 { // otherwise it may be the write that is under way
		n.streak, n.others = 0, read
	}
	n.record(d, i.Data, i.Version, began, e.moment(), read)
	return nil
}

// keepSights makes leases in d that this process has seen before end when it has expected so far: a
// lease that nobody has renewed does not end later because another process has written it again.
func (n *entry) keepSights(d *document.Document) {
	type lease struct {
		owner   string
		renewed uint64
	}
	known := make(map[lease]time.Time, len(n.doc.Grants)+len(n.doc.Queue))
	for _, g := range n.doc.Grants {
		known[lease{g.Owner, g.Renewed}] = g.Expires
	}
	for _, p := range n.doc.Queue {
		known[lease{p.Owner, p.Renewed}] = p.Expires
	}
	for i, g := range d.Grants {
		if at, ok := known[lease{g.Owner, g.Renewed}]; ok && at.Before(g.Expires) {
			d.Grants[i].Expires = at
		}
	}
	for i, p := range d.Queue {
		if at, ok := known[lease{p.Owner, p.Renewed}]; ok && at.Before(p.Expires) {
			d.Queue[i].Expires = at
		}
	}
}

// lose records that the store has the document d, which is not later than one that it had before:
// it was restored, or somebody has deleted the document.
func (n *entry) lose(d *document.Document) {
	text := fmt.Sprintf("the store has an earlier state than before: revision %d after %d", d.Revision, n.doc.Revision)
	if d.Revision == 0 {
		text = "the document of the name was deleted"
	}
	n.lost = map[string]string{}
	for _, g := range n.doc.Grants {
		if d.Held(g.Owner) == nil {
			n.lost[g.Owner] = text
		}
	}
}

// record makes d the document that is known, by a call between `began` and `found`, which ended at the
// time `ended`. The mutex of n is held.
func (n *entry) record(d *document.Document, data []byte, v Version, began, found moment, ended time.Time) {
	n.doc, n.data, n.version = d, data, v
	n.usable, n.found, n.confirmed, n.looked = n.isLatest(v, began), found, began, ended
	n.highest, n.tokens = max(n.highest, d.Revision), max(n.tokens, d.Last)
	n.wakeReady(ended)
}

// isLatest reports whether the watch has reported no other version since the call began that has
// found v.
func (n *entry) isLatest(v Version, began moment) bool {
	return n.reported == v || n.reportedAt < began
}

// now returns what is known without what has ended at the time t. The mutex of n is held.
func (n *entry) now(t time.Time) *document.Document {
	if n.liveOf != n.doc {
		n.live, n.liveOf = n.doc, n.doc
	}
	if n.live.Stale(t) {
		n.live = n.live.Clone()
		n.live.Purge(t)
	}
	return n.live
}

// outdated records that the store may have another document than the one that is known.
func (n *entry) outdated() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usable = false
}

// try makes one attempt to take the name in d. The mutex of n is held.
func (n *entry) try(d *document.Document, c driver.Claim, now time.Time, maxSize int) (out driver.Outcome, changes change, err error) {
	if now.Before(n.abandoned[c.Owner]) {
		return out, unchanged, fmt.Errorf("the claim was given up before this try: %w", driver.ErrGone)
	}
	if err := n.room(d, c, maxSize); err != nil {
		return out, unchanged, err
	}
	marks, places := len(d.Waiting), len(d.Queue)
	var fresh time.Duration
	if i := d.Position(c.Owner); i >= 0 {
		fresh = d.Queue[i].Expires.Sub(now)
	}
	out, err = d.TryInTurn(c, now, n.tokens+1)
	if err != nil {
		return out, unchanged, err
	}
	if out.Granted {
		delete(n.places, c.Owner)
		return out, grants, nil
	}
	out.Ahead = ahead{out.Kept}
	if d.Position(c.Owner) >= 0 {
		n.places[c.Owner] = now
	}
	if len(d.Waiting) != marks || len(d.Queue) != places || d.Position(c.Owner) >= 0 && fresh < document.Presence*2/3 {
		changes = joins
	}
	return out, changes, nil
}

// room returns an error if a new claim would make d larger than the store can have it.
func (n *entry) room(d *document.Document, c driver.Claim, maxSize int) error {
	mayBeAlone := c.Mode == driver.Exclusive && !c.Fair // then it is granted only without other holders
	if mayBeAlone || d.Held(c.Owner) != nil || d.Position(c.Owner) >= 0 {
		return nil
	}
	const part = 300 // bytes of a grant without its note, at most
	parts := len(d.Grants) + len(d.Queue)
	size := len(n.data) + (parts-len(n.doc.Grants)-len(n.doc.Queue)+1)*(part+len(c.Note))
	if parts < partsMost && size < maxSize {
		return nil
	}
	return fmt.Errorf("the name has %d holders and waiters in %d bytes, which is as much as the store keeps in one document: %w, %w",
		parts, len(n.data), driver.ErrUnable, driver.ErrNotExecuted)
}

// renew extends the lease of c in d, or its place. The mutex of n is held.
func (n *entry) renew(d *document.Document, c driver.Claim, now time.Time) (driver.Renewal, change) {
	g := d.Held(c.Owner)
	if g != nil && c.Fixed { // others may know of an earlier end of the lease than g.Expires, but not before c.TTL
		return driver.Renewal{ValidFor: min(g.Expires.Sub(now), c.TTL)}, unchanged
	}
	validFor, ok := d.Renew(c, now)
	switch {
	case !ok:
		return driver.Renewal{Err: n.gone(d, c)}, unchanged
	case g == nil:
		n.places[c.Owner] = now
		return driver.Renewal{ValidFor: validFor}, joins
	}
	return driver.Renewal{ValidFor: validFor}, keeps
}

// gone returns why d has nothing of c. The mutex of n is held.
func (n *entry) gone(d *document.Document, c driver.Claim) *driver.GoneError {
	g := d.Gone(c)
	if text := n.lost[c.Owner]; text != "" && g.Reason == driver.ReasonExpired {
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: text}
	}
	if g.Reason == driver.ReasonExpired && n.version == "" {
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "the store has no document of the name"}
	}
	return g
}

// givesUp records that a claim ends: later tries of it are refused if an earlier one has no answer.
func (n *entry) givesUp(c driver.Claim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.places, c.Owner)
	if !c.Indeterminate {
		delete(n.sent, c.Owner)
		return
	}
	now := time.Now()
	maps.DeleteFunc(n.abandoned, func(owner string, until time.Time) bool {
		over := !now.Before(until)
		if over {
			delete(n.sent, owner)
		}
		return over
	})
	n.abandoned[c.Owner] = now.Add(max(c.TTL, document.Remember))
}

// mayStillBeGranted reports whether a write under way grants the claim of an owner that was given up,
// if nobody writes before. The mutex of n is held.
func (n *entry) mayStillBeGranted(owner string) bool {
	return slices.Contains(n.sent[owner], n.version)
}

// keepPlaces extends the places of this process in d, because the document is written anyway. The
// mutex of n is held.
func (n *entry) keepPlaces(d *document.Document, now time.Time) {
	for owner, tried := range n.places {
		switch {
		case now.Sub(tried) >= document.Presence:
			delete(n.places, owner)
		case now.Sub(tried) < keepsFor && d.Position(owner) >= 0 && d.Held(owner) == nil:
			d.Renew(driver.Claim{Owner: owner}, now)
		}
	}
}

// waited reports whether somebody waits for the name, before or after a write.
func waited(before, after *document.Document) bool {
	return slices.ContainsFunc([]*document.Document{before, after}, func(d *document.Document) bool {
		return len(d.Queue) > 0 || len(d.Waiting) > 0 || d.Kind == document.Latch
	})
}
