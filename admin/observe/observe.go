// Package observe turns the polls of a store and its event log into one stream of changes,
// for operators: grants, releases, expired leases, forced unlocks, losses, late renewals and
// waiters.
//
// The changes of one client come from one source. If the client wrote to the event log within
// the last hour, the stream has its entries from the event log. If not, the stream has the
// changes that polling finds. Only polling finds expired leases, renewals that are not late,
// and numbers of waiters. Polling is therefore the source of these changes for all clients.
//
// A client writes an entry about a second after the event. Polling may find the same event
// before the entry is in the log. Take therefore returns each change only a Delay after it
// was found.
package observe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	// Delay is how long Take keeps back a change, so that an entry of the event log about the
	// same event can arrive. If the store has no event log, Take keeps back nothing.
	Delay = 2 * time.Second

	// Past is how long after its last entry a client still counts as one that writes to the
	// event log. Pass Past to ReadLog, so that the first call reads the entries of this period.
	Past = time.Hour

	reasonTimeout  = 800 * time.Millisecond
	logTimeout     = 2 * time.Second // of one call of ReadLog
	mostReasons    = 64              // the most ended holds of one Poll for which the store is asked whether they were forced
	mostRemembered = 10_000          // the most entries of each of the maps reporters, over, forced and reported
	logPage        = 1000
	logRetry       = 15 * time.Second // the pause after an error: the store may have no log, or not let this user read it
)

// Options are the settings of an Observer. The zero value has the defaults.
type Options struct {
	// Names is the maximal number of names; the Observer ignores further names. 0 means no
	// limit.
	Names int

	// Reasons returns for how many of n ended holds the Observer may ask the store whether they
	// were forced. The Observer calls it in each Poll, also with n = 0. The holds for which it
	// does not ask count as released. The default is 64 holds for each Poll.
	Reasons func(n int) int
}

// Observer compares each poll of a name with the previous poll of the same name. Any number of
// goroutines may use it, but only one at a time may call ReadLog.
type Observer struct {
	console *admin.Console
	options Options

	lastID string    // for ReadLog only: the ID of the last entry that it read
	readAt time.Time // for ReadLog only: when ReadLog last asked the store
	nextAt time.Time // for ReadLog only: ReadLog does not ask the store before this time; set after an error

	scanned atomic.Bool // at least one complete scan has ended

	mu        sync.Mutex
	states    map[string]State
	noLog     bool // the store has no event log
	pending   []Change
	reporters map[string]time.Time   // by client: the time of its last entry
	over      map[admin.Ended]Change // by hold: its end, as polling found it
	forced    map[admin.Ended]Change // by hold: its forced unlock, if the stream has it
	reported  map[admin.Ended]Change // by hold: its release or loss, as the client reported it
}

// New returns an Observer of the store of console. opts may be nil.
func New(console *admin.Console, opts *Options) *Observer {
	o := &Observer{
		console: console, states: map[string]State{}, reporters: map[string]time.Time{},
		over: map[admin.Ended]Change{}, forced: map[admin.Ended]Change{}, reported: map[admin.Ended]Change{},
	}
	if opts != nil {
		o.options = *opts
	}
	if o.options.Reasons == nil {
		o.options.Reasons = func(n int) int { return min(n, mostReasons) }
	}
	return o
}

// Poll compares records with the known states of their names, and adds the differences to the
// stream. The parameter `now` is the time at which the store answered. A Record without a
// Kind, or with KindOther, means that the name is free: the Observer forgets the name. A
// Record that is older than the known state changes nothing. Poll asks the store which of the
// ended holds were forced.
func (o *Observer) Poll(ctx context.Context, now time.Time, records ...admin.Record) {
	why := o.reasons(ctx, o.unexplained(now, records))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range records {
		o.put(now, r, why)
	}
}

// unexplained returns the known holds that are missing in the new records, although their
// leases had not expired at the time `now`.
func (o *Observer) unexplained(now time.Time, records []admin.Record) (list []admin.Ended) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range records {
		for _, h := range o.states[r.Name].ended(r) {
			if !h.expired(now) {
				list = append(list, admin.Ended{Name: r.Name, Owner: h.Owner})
			}
		}
	}
	return list
}

// reasons asks the store which of the ended holds were forced. For each hold it returns the
// reason, or "" if the hold was not forced. Options.Reasons limits the number of holds for
// which it asks.
func (o *Observer) reasons(ctx context.Context, ended []admin.Ended) map[admin.Ended]string {
	if ended = ended[:o.options.Reasons(len(ended))]; len(ended) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reasonTimeout)
	defer cancel()
	texts, _ := o.console.ForceReasons(ctx, ended) // after an error some reasons are missing, and their holds count as released
	why := make(map[admin.Ended]string, len(ended))
	for i, e := range ended {
		why[e] = texts[i]
	}
	return why
}

// put stores r as the new state of its name, and adds the changes to o.pending. The caller
// holds o.mu.
func (o *Observer) put(now time.Time, r admin.Record, why map[admin.Ended]string) {
	old, known := o.states[r.Name]
	switch {
	case r.Kind == admin.KindUnknown && known:
		old.Asked = now
		o.states[r.Name] = old
		return
	case r.Kind == admin.KindUnknown || old.Seen.After(now):
		return
	}
	is := old.next(now, r)
	switch {
	case r.Kind == "" || r.Kind == admin.KindOther:
		is = State{Record: admin.Record{Name: r.Name}, Seen: now}
		delete(o.states, r.Name)
	case !known && o.options.Names > 0 && len(o.states) >= o.options.Names:
		return
	default:
		o.states[r.Name] = is
	}
	for _, c := range old.changes(is, !known && !o.scanned.Load(), why) {
		if c.found = now; c.Type == Held {
			c.found = time.Time{} // the event log has no entry for such a change, so Take need not wait
		}
		if c.HeldFor > 0 {
			remember(o.over, c.Hold(), c)
		}
		o.pending = append(o.pending, c)
	}
}

// Scan lists the names that the filter f selects. It polls each name for which the function
// `wants` returns true. A known name that a complete scan does not find counts as free. If the
// scan is not complete, Scan returns an error. In that case the result `missed` has the known
// names that were not polled since the scan began, the name with the oldest poll first. If a
// name appears after the first complete scan, its holds count as new grants.
//
// A name that f.Skip leaves out is not polled, and not passed to `wants`. It does not count as
// free. A scan that leaves out a name that is not known is complete, but does not count as the
// first complete scan.
func (o *Observer) Scan(ctx context.Context, f admin.Filter, wants func(name string) bool) (missed []string, err error) {
	began, found, unread, skipped := time.Now(), 0, false, map[string]bool{}
	for r, failed := range o.console.List(ctx, f) {
		if err = failed; err != nil {
			break
		}
		if r.Kind == admin.KindUnknown {
			if _, known := o.Get(r.Name); !known {
				unread = true // it may be no lock
				continue
			}
			skipped[r.Name] = true
		}
		if found++; o.options.Names > 0 && found > o.options.Names {
			err = admin.ErrIncomplete
			break
		}
		if !skipped[r.Name] && wants(r.Name) {
			o.Poll(ctx, time.Now(), r)
		}
	}
	now := time.Now()
	missing := o.PolledBefore(began)
	if err != nil {
		return missing, err
	}
	if !unread {
		o.scanned.Store(true)
	}
	var free []admin.Record
	for _, name := range missing {
		if !skipped[name] {
			free = append(free, admin.Record{Name: name})
		}
	}
	o.Poll(ctx, now, free...)
	return nil, nil
}

// PolledBefore returns the known names whose state is from before the given time. The names
// are in the order of their last polls, the oldest poll first.
func (o *Observer) PolledBefore(at time.Time) []string {
	var list []State
	for s := range o.All {
		if s.Seen.Before(at) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b State) int { return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Name, b.Name)) })
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	return names
}

// ReadLog reads the next entries of the event log, at most 1,000. The result `more` is true if
// the log may have further entries. The first call begins with the entries that are at most
// `past` old. So does a call if ReadLog last asked the store longer than `past` ago. For 15 s
// after an error ReadLog returns false and nil, and does not ask the store, because the log may
// be on a node that hangs, while the locks are on other nodes. A call takes at most 2 s. Only
// one goroutine at a time may call ReadLog.
func (o *Observer) ReadLog(ctx context.Context, past time.Duration) (more bool, err error) {
	if time.Now().Before(o.nextAt) {
		return false, nil
	}
	if time.Since(o.readAt) > past {
		o.lastID = ""
	}
	read := 0
	limited, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	for e, failed := range o.console.Log(limited, admin.LogFilter{After: o.lastID, Last: past, Limit: logPage}) {
		if err = failed; err != nil {
			break
		}
		read++
		o.lastID = e.ID
		o.Report(e)
	}
	if o.readAt = time.Now(); err != nil && !errors.Is(err, context.Canceled) {
		o.nextAt = o.readAt.Add(logRetry)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noLog = errors.Is(err, errors.ErrUnsupported)
	return err == nil && read == logPage, err
}

// HasLog reports whether the store has an event log. It is true before the first ReadLog.
func (o *Observer) HasLog() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.noLog
}

// Report adds one entry to the stream, as ReadLog does for each entry that it reads.
func (o *Observer) Report(e admin.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Client.ID != "" {
		remember(o.reporters, e.Client.ID, e.At)
	}
	o.pending = append(o.pending, Change{Entry: e, Reported: true, found: e.At})
}

// Take returns the changes that were found at least a Delay before the time `now`, in the order
// of Change.At. If the store has no event log, Take returns all changes that were found until
// `now`. Take returns each change once. To get all changes, pass the present time plus Delay.
func (o *Observer) Take(now time.Time) []Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.noLog {
		now = now.Add(-Delay)
	}
	var due, rest []Change
	for _, c := range o.pending {
		if c.found.After(now) {
			rest = append(rest, c)
		} else {
			due = append(due, c)
		}
	}
	o.pending = rest
	slices.SortStableFunc(due, func(a, b Change) int { return a.At.Compare(b.At) })
	var list []Change
	for _, c := range due {
		if o.belongs(&c) {
			list = append(list, c)
		}
	}
	return list
}

// belongs reports whether c belongs to the stream. If polling found c, and the event log is the
// source for such changes of the client, c does not belong to the stream. A forced unlock
// belongs to the stream only once. The caller holds o.mu.
func (o *Observer) belongs(c *Change) bool {
	switch {
	case c.Type == admin.EntryForced:
		return o.belongsForced(c)
	case c.Reported && (c.Type == admin.EntryReleased || c.Type == admin.EntryLost):
		remember(o.reported, c.Hold(), *c)
	case c.Reported:
	case c.Type == Expired:
		end, reported := o.reported[c.Hold()]
		return !reported || end.At.Before(c.At.Add(-c.HeldFor))
	case c.Type == admin.EntryAcquired, c.Type == admin.EntryReleased, c.Type == admin.EntryRenewedLate:
		last, reports := o.reporters[c.ClientID()]
		return !reports || time.Since(last) > Past
	}
	return true
}

// belongsForced does what belongs does, for a forced unlock. Polling may find the forced
// unlock, and the client that forced the hold may report it. The stream has it once.
//
// The store keeps the reason for a while, by name and owner. A thread of Redisson is the same
// owner in each of its holds. If such a thread takes the lock again after the forced unlock,
// the store returns the reason also for the end of its new hold. belongsForced changes the
// type of that end to a release.
func (o *Observer) belongsForced(c *Change) bool {
	if c.Reported {
		o.addHolder(c)
	}
	before, again := o.forced[c.Hold()]
	if !again || before.Reason != c.Reason {
		remember(o.forced, c.Hold(), *c)
		return true
	}
	if c.Reported || !c.At.Add(-c.HeldFor).After(before.At) {
		return false
	}
	c.Type, c.Reason = admin.EntryReleased, ""
	return o.belongs(c)
}

// addHolder sets Client, Note and HeldFor of c, a reported forced unlock, to those of the hold
// that was ended. Only polling knows these values.
func (o *Observer) addHolder(c *Change) {
	c.Client, c.Note = admin.Client{}, ""
	if over, known := o.over[c.Hold()]; known && over.At.After(c.At.Add(-time.Minute)) {
		c.Client, c.Note, c.HeldFor = over.Client, over.Note, over.HeldFor
		return
	}
	for _, h := range o.states[c.Name].Holds {
		if h.Owner == c.Owner {
			c.Client, c.Note, c.HeldFor = h.Client, h.Note, c.At.Sub(h.Since)
		}
	}
}

// Get returns the known state of name. It returns false if the name is not known.
func (o *Observer) Get(name string) (State, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.states[name]
	return s, ok
}

// All yields the known state of each name, in no order. All holds a mutex while it runs, so
// `yield` must not call the Observer.
func (o *Observer) All(yield func(State) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.states {
		if !yield(s) {
			return
		}
	}
}

// remember adds v to m. If m is full, it first removes all entries of m. The stream may then
// have an event twice, which does less harm than a map without a limit.
func remember[K comparable, V any](m map[K]V, k K, v V) {
	if len(m) >= mostRemembered {
		clear(m)
	}
	m[k] = v
}
