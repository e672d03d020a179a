package dash

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	mostNames = 50_000                 // names that are remembered; a store with more is shown in part
	jitter    = 400 * time.Millisecond // by which two answers about the same lease may differ

	mostReasons = 1000 // forced holds that are remembered, to be shown once
)

// table is what is known of all names. What it returns is a copy; nothing outside
// changes it.
type table struct {
	mu       sync.Mutex
	entries  map[string]entry
	eventLog *EventLog
	first    chan struct{} // closed when a page of names, or all, were found once
	pass     pass
	reasons  map[admin.Ended]string // why the last forced hold of an owner was, as reported
}

// reasons says why holds were ended by force.
type reasons map[admin.Ended]string

// entry is what is known of one name. It is replaced, not changed.
type entry struct {
	admin.Record
	id    string    // of its row
	seen  time.Time // when the store answered
	holds []held    // one for each of Record.Holds
	waits map[string]time.Time
}

// held is what is known of a hold beyond what the store shows.
type held struct {
	since      time.Time // when it was granted, or first seen
	exact      bool      // the store said since
	ends       time.Time // when the lease ends unless it is renewed; zero if never, or if that is unknown
	unknownEnd bool
	span       time.Duration // the longest lease that was seen
	renews     int           // how many renewals were seen
}

// pass is a walk over all names.
type pass struct {
	number  int
	began   time.Time
	found   int
	lasted  time.Duration // the last that came to its end
	ended   time.Time
	partial error // why the last one did not see everything
}

func (t *table) init(h *EventLog) {
	t.entries, t.eventLog, t.first, t.reasons = map[string]entry{}, h, make(chan struct{}), map[admin.Ended]string{}
}

// ready reports that there is something to show.
func (t *table) ready() <-chan struct{} { return t.first }

// found notes records that the store answered at now. why is about holds that they do
// not have any more.
func (t *table) found(now time.Time, records []admin.Record, walking bool, why reasons) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		if walking {
			t.pass.found++
		}
		t.put(now, r, why)
	}
	if t.pass.found >= pageRows {
		t.open()
	}
}

// open says that there is something to show.
func (t *table) open() {
	select {
	case <-t.first:
	default:
		close(t.first)
	}
}

// put replaces what is known of r.Name, and adds what changed to the event log.
func (t *table) put(now time.Time, r admin.Record, why reasons) {
	if r.Kind == admin.KindUnknown {
		return
	}
	old, known := t.entries[r.Name]
	if r.Kind == "" || r.Kind == admin.KindOther {
		r.Holds, r.Holders, r.Waiters, r.Waiting, r.Listeners = nil, 0, nil, 0, 0
		if known {
			delete(t.entries, r.Name)
			t.compare(now, old, entry{Record: r}, why)
		}
		return
	}
	if !known && len(t.entries) >= mostNames {
		return
	}
	e := entry{Record: r, id: old.id, seen: now, holds: make([]held, len(r.Holds))}
	if !known {
		e.id = identity("r-", r.Name)
	}
	for i, h := range r.Holds {
		before, had := old.hold(h)
		e.holds[i] = before.next(now, now.Sub(old.seen), h, had)
	}
	e.waits = map[string]time.Time{}
	for _, q := range r.Waiters {
		since, had := old.waits[q.Owner]
		if !had {
			since = now
		}
		e.waits[q.Owner] = since
	}
	t.entries[r.Name] = e
	// What the first walk finds was locked before: nobody saw it happen.
	if known || t.pass.number > 1 {
		t.compare(now, old, e, why)
	}
}

// hold returns what is known of h, if it is the same grant as before.
func (e entry) hold(h admin.Hold) (held, bool) {
	for i, o := range e.Holds {
		if o.Owner == h.Owner && o.Mode == h.Mode && (o.Token == h.Token || o.Token == 0 || h.Token == 0) {
			return e.holds[i], true
		}
	}
	return held{}, false
}

// next returns what is known of a hold after the store answered h at now.
func (o held) next(now time.Time, since time.Duration, h admin.Hold, had bool) held {
	n := o
	if !had {
		n = held{since: now}
	}
	if granted := now.Add(-h.HeldFor); h.HeldFor > 0 && (!n.exact || granted.Sub(n.since) > jitter) { // later: it was passed on
		n.since, n.exact = granted, true
	}
	if h.Remaining < 0 {
		n.ends, n.span, n.unknownEnd = time.Time{}, 0, h.Remaining == admin.RemainingUnknown
		return n
	}
	ends := now.Add(h.Remaining)
	if had = had && !o.ends.IsZero(); had && ends.Sub(o.ends).Abs() <= jitter {
		ends = o.ends // the same lease: what is shown of it shall not change
	} else if had && ends.After(o.ends) {
		n.renews++
	}
	n.ends, n.span = ends, max(n.span, h.Remaining)
	return n
}

// over returns the holds that records, which the store answered at now, show to be
// over though their leases were not: it is worth to ask why.
func (t *table) over(now time.Time, records []admin.Record) []admin.Ended {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ended []admin.Ended
	for _, r := range records {
		old, known := t.entries[r.Name]
		if !known || r.Kind == admin.KindUnknown {
			continue
		}
		is := entry{Record: r, holds: make([]held, len(r.Holds))}
		for i, h := range old.Holds {
			if _, still := is.hold(h); !still && !old.holds[i].lapsed(now) {
				ended = append(ended, admin.Ended{Name: r.Name, Owner: h.Owner})
			}
		}
	}
	return ended
}

// lapsed reports that the lease is over at now, as far as was seen.
func (o held) lapsed(now time.Time) bool {
	return !o.ends.IsZero() && !now.Before(o.ends.Add(-jitter))
}

// compare adds to the event log how a name got from old to e.
func (t *table) compare(now time.Time, old, e entry, why reasons) {
	for i, h := range old.Holds {
		if _, still := e.hold(h); !still {
			if end := t.ending(now, e.Name, h, old.holds[i], why); end.Kind == eventForced || !h.Kept() {
				t.eventLog.addPolled(end)
			}
		}
	}
	for i, h := range e.Holds {
		who := people(h)
		before, had := old.hold(h)
		switch {
		case h.Kept():
		case !had:
			t.eventLog.addPolled(event{
				At: e.holds[i].since, Kind: eventAcquired, Name: e.Name, Who: who.text(), purpose: who.purpose,
				client: clientOf(h), owner: h.Owner, Mode: h.Mode, alone: h.Mode == driver.Exclusive, Token: h.Token,
			})
		case e.holds[i].renews > before.renews:
			t.eventLog.addPolled(event{At: now, Kind: eventRenewed, Name: e.Name, Who: who.text(), purpose: who.purpose, client: clientOf(h), owner: h.Owner, Left: before.ends.Sub(now)})
		}
	}
	if was, is := waiting(old.Record), waiting(e.Record); was != is {
		t.eventLog.addPolled(event{At: now, Kind: eventWaiting, Name: e.Name, Count: is})
	}
}

// ending reports how the hold h of name ended, which is over at now.
func (t *table) ending(now time.Time, name string, h admin.Hold, o held, why reasons) event {
	who := people(h)
	s := event{
		At: now, Kind: eventReleased, Name: name, Who: who.text(), purpose: who.purpose,
		client: clientOf(h), owner: h.Owner, Token: h.Token, Held: now.Sub(o.since), alone: h.Mode == driver.Exclusive,
	}
	owner := admin.Ended{Name: name, Owner: h.Owner}
	switch reason := why[owner]; {
	case o.lapsed(now):
		s.Kind = eventExpired
	case reason != "" && t.reasons[owner] != reason:
		// Shown once: a thread of Redisson's may take the lock again, and release it,
		// while the store remembers.
		if len(t.reasons) >= mostReasons {
			clear(t.reasons)
		}
		t.reasons[owner] = reason
		s.Kind, s.Who, s.Why = eventForced, "taken from "+s.Who, short(printable(reason), longReason)
	}
	return s
}

// waiting returns how many wait for r, as far as the store shows: those in line,
// and the clients that listen for a release.
func waiting(r admin.Record) int { return r.Waiting + max(r.Listeners, 0) }

// waitersHidden reports that clients may wait for r which the store does not show.
func waitersHidden(r admin.Record) bool { return r.Waiting == 0 && r.Listeners < 0 }

// begin starts a pass.
func (t *table) begin(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass.number++
	t.pass.began, t.pass.found = now, 0
}

// missing returns the names that the pass which is about to end has not found, as
// free, those first that were not seen for the longest time.
func (t *table) missing() []admin.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone []entry
	for _, e := range t.entries {
		if e.seen.Before(t.pass.began) {
			gone = append(gone, e)
		}
	}
	slices.SortFunc(gone, func(a, b entry) int { return a.seen.Compare(b.seen) })
	records := make([]admin.Record, len(gone))
	for i, e := range gone {
		records[i].Name = e.Name
	}
	return records
}

// end ends a pass. If it saw everything, what it did not find is gone; why is about
// the holds of that.
func (t *table) end(now time.Time, err error, why reasons) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass.partial = err
	if err != nil {
		return
	}
	t.pass.lasted, t.pass.ended = now.Sub(t.pass.began), now
	for name, e := range t.entries {
		if e.seen.Before(t.pass.began) {
			delete(t.entries, name)
			t.compare(now, e, entry{Record: admin.Record{Name: name}}, why)
		}
	}
	t.open()
}

// get returns what is known of name.
func (t *table) get(name string) (entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.entries[name]
	return e, ok
}

// all returns what is known of all names that want says yes to, in no order, and
// how many there are without it.
func (t *table) all(want func(*entry) bool) (list []entry, total int, p pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		if want == nil || want(&e) {
			list = append(list, e)
		}
	}
	return list, len(t.entries), t.pass
}

// totals returns how many holds there are, and how many wait.
func (t *table) totals() (held, waits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		held += e.Holders
		waits += waiting(e.Record)
	}
	return held, waits
}

// hidden reports that the store does not show whether clients wait for some names.
func (t *table) hidden() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		if waitersHidden(e.Record) {
			return true
		}
	}
	return false
}

// stale returns those of names that were not looked at since.
func (t *table) stale(names []string, since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var old []string
	for _, name := range names {
		if e, ok := t.entries[name]; ok && e.seen.Before(since) {
			old = append(old, name)
		}
	}
	return old
}
