// Package observe turns the polls of a store and its event log into one stream of changes,
// for operators: grants, releases, expired leases, forced unlocks, losses, late renewals
// and waiters.
//
// Each client has one source. The changes of a client that wrote to the event log within the
// last hour are its entries there. The changes of all others are those that polling finds.
// Only polling finds expired leases, renewals in time and numbers of waiters, so polling is
// the source of these for all clients.
//
// A client writes its entries about a second after the event, and polling may find the event
// before that. Take therefore returns each change only a Delay after it was found.
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

	// Past is how long after its last entry a client counts as one that writes to the event
	// log. Pass it to ReadLog, so that the first call reads the entries of that period.
	Past = time.Hour

	reasonTimeout  = 800 * time.Millisecond
	logTimeout     = 2 * time.Second // of one page
	mostReasons    = 64              // holds of one poll for which the store is asked why they ended
	mostRemembered = 10_000          // entries of each of the maps reporters, over, forced and reported
	logPage        = 1000
	logRetry       = 15 * time.Second // after an error: the store may have no log, or not let this user read it
)

// Options are the settings of an Observer. The zero value has the defaults.
type Options struct {
	// Names is the maximal number of names; the Observer ignores further ones. 0 means no
	// limit.
	Names int

	// Reasons returns for how many of n ended holds the store may be asked whether they
	// were forced. The others count as released. The default is 64 for each poll.
	Reasons func(n int) int
}

// Observer compares each poll of a name with the poll before. Any number of goroutines may
// use it, but only one at a time may call ReadLog.
type Observer struct {
	console *admin.Console
	options Options

	lastID string    // of ReadLog only: the ID of the last entry
	readAt time.Time // of ReadLog only: when it last read entries
	nextAt time.Time // of ReadLog only: after an error it does not read before this time

	scanned atomic.Bool // a complete scan is over

	mu        sync.Mutex
	states    map[string]State
	noLog     bool // the store has no event log
	pending   []Change
	reporters map[string]time.Time   // by client: the time of its last entry
	over      map[admin.Ended]Change // the ends that polling found
	forced    map[admin.Ended]Change // the forced unlocks in the stream
	reported  map[admin.Ended]Change // the releases and losses that clients reported
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
// stream. The store answered at the time now. A Record without a Kind, or with KindOther,
// means that the name is free: the Observer forgets it. A Record that is older than the known
// state changes nothing. Poll asks the store which of the ended holds were forced.
func (o *Observer) Poll(ctx context.Context, now time.Time, records ...admin.Record) {
	why := o.reasons(ctx, o.unexplained(now, records))
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range records {
		o.put(now, r, why)
	}
}

// unexplained returns the known holds that records do not have any more, although their
// leases had not expired at now.
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

// reasons asks the store which of the holds in ended were forced, and returns the reasons by
// hold. Options.Reasons limits the number of holds.
func (o *Observer) reasons(ctx context.Context, ended []admin.Ended) map[admin.Ended]string {
	if ended = ended[:o.options.Reasons(len(ended))]; len(ended) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reasonTimeout)
	defer cancel()
	texts, _ := o.console.ForceReasons(ctx, ended) // a reason that cannot be read is left out
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
			c.found = time.Time{} // no entry of the event log is about it
		}
		if c.HeldFor > 0 {
			remember(o.over, c.Hold(), c)
		}
		o.pending = append(o.pending, c)
	}
}

// Scan lists the names that f selects, and polls those that wants accepts. A known name that
// a complete scan does not find is free. If the scan is not complete, Scan returns the error,
// and in missed the known names that had no poll since the scan began. The name with the
// oldest poll comes first. If a name appears after the first complete scan, its holds count
// as new grants.
func (o *Observer) Scan(ctx context.Context, f admin.Filter, wants func(name string) bool) (missed []string, err error) {
	began, found := time.Now(), 0
	for r, failed := range o.console.List(ctx, f) {
		if err = failed; err != nil {
			break
		}
		if found++; o.options.Names > 0 && found > o.options.Names {
			err = admin.ErrIncomplete
			break
		}
		if wants(r.Name) {
			o.Poll(ctx, time.Now(), r)
		}
	}
	now := time.Now()
	missing := o.PolledBefore(began)
	if err != nil {
		return missing, err
	}
	o.scanned.Store(true)
	free := make([]admin.Record, len(missing))
	for i, name := range missing {
		free[i].Name = name
	}
	o.Poll(ctx, now, free...)
	return nil, nil
}

// PolledBefore returns the known names whose last state is from before the given time, in the
// order of their polls, with the oldest one first.
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

// ReadLog reads the next entries of the event log, at most 1,000. It reports whether there
// may be more. The first call begins with the entries of the period past before now, and so
// does a call after a pause longer than past. For 15 s after an error ReadLog returns false
// and nil, without a call to the store: the log may be on a node that hangs, while the locks
// are on other nodes. A call takes at most 2 s. One goroutine at a time may call it.
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

// Report adds an entry as ReadLog does.
func (o *Observer) Report(e admin.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Client.ID != "" {
		remember(o.reporters, e.Client.ID, e.At)
	}
	o.pending = append(o.pending, Change{Entry: e, Reported: true, found: e.At})
}

// Take returns the changes that were found a Delay or longer before now, in the order of
// their times. It returns each change once. To get all changes, pass the present time plus
// Delay.
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

// belongs reports whether c belongs to the stream. It does not if the other source is the one
// for the event of c. The caller holds o.mu.
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

// belongsForced is belongs for a forced unlock. Polling may find it, and the client that
// forced the hold may report it; the stream has it once. The store keeps the reason for a
// while. If a thread of Redisson takes the lock again meanwhile, the store returns that
// reason also for its next hold, because the owner is the same. The end of that hold is a
// release.
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

// addHolder adds to a reported forced unlock the holder and the time that it held the lock.
// Only polling knows these.
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

// All yields the known state of each name, in no order. It holds a mutex meanwhile: yield
// must not call the Observer.
func (o *Observer) All(yield func(State) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.states {
		if !yield(s) {
			return
		}
	}
}

// remember adds v to m. If m is full, it first removes all other entries: an event that is in
// the stream twice does less harm than a map without a limit.
func remember[K comparable, V any](m map[K]V, k K, v V) {
	if len(m) >= mostRemembered {
		clear(m)
	}
	m[k] = v
}
