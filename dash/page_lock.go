package dash

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const timelineRows = 100

// lockData is the page of one lock.
type lockData struct {
	Name, Title string
	Unlock      string // the address of the page that forces the lock; "" if the user may not force the lock, or if the lock is free
	NoUnlock    string // who can force the lock, if the user may not; "" if the lock is free
	State       stateData
	Keys        []keyData
	Events      []eventData
	Charts      []chart
}

// stateData has the holders and the waiters of a lock.
type stateData struct {
	Free    bool
	Trouble string
	Kind    string
	Count   string // as countOf returns it
	Token   uint64 // the last fencing token of the name; 0 if it is not known
	CLI     []string

	Holders int // how many holders there are
	Holds   []holdData
	Unnamed int       // how many of the holders are not in Holds
	Only    *holdData // the only holder; nil if there is none, or more than one
	Oldest  *holdData // the holder that has held for longest
	Next    *holdData // the holder whose lease ends first

	Waiting     int  // how many wait, as far as the store shows
	Hidden      bool // the store does not show whether there are waiters
	Longest     *waiterData
	Waiters     []waiterData
	MoreWait    int          // how many waiters of the queue are not in Waiters
	Clients     []waiterData // the clients that wait without a position in a queue
	MoreClients int          // how many of the clients that listen are not in Clients
}

// waiterData is a waiter in the queue, or a client with waiters.
type waiterData struct {
	person
	Place, Count int // for a waiter: its position in the queue, from 1; for a client: the number of its waiters
	Mode         string
	Since        ago
}

type keyData struct {
	Name, Type, Value string
	Ends              time.Time // when the key expires; zero if never, or if Unknown is true
	Unknown           bool
}

func (d *Dashboard) lockContent(q query, e extras) content {
	text := printable(q.name)
	s, known := d.table.Get(q.name)
	events := d.eventLog.of(time.Time{}, timelineRows, func(s *event) bool { return s.Name == q.name })
	data := lockData{
		Name: short(text, 2*longName), Title: short(text, 2000), Keys: keys(e.detail), State: stateData{Free: true},
		Events: eventRows(events),
		Charts: slices.DeleteFunc(d.lockCharts(time.Now(), q.name), func(c chart) bool { return len(c.Bars) < 2 }),
	}
	switch {
	case known:
		data.State = stateOf(s, e.detail)
	case e.detail.Kind == admin.KindOther:
		data.State.Kind = "no lock: the store has other data under this name"
	}
	if e.detail.err != nil {
		data.State.Trouble = errorText(e.detail.err)
	}
	data.State.CLI = commands(s.Holds, q.name)
	switch {
	case len(s.Holds) == 0:
	case e.mayUnlock:
		data.Unlock = "unlock?name=" + url.QueryEscape(q.name)
	case d.options.AllowUnlock:
		data.NoUnlock = "Operators and the command line can force this lock."
	default:
		data.NoUnlock = "The command line can force this lock."
	}
	return content{
		title: short(data.Name, 60), page: "lock", data: data,
		parts: []part{
			{"state", "state", data.State},
			{"keys", "keys", data.Keys},
			{"timeline", "timeline", data.Events},
			{"charts", "charts", data.Charts},
		},
	}
}

// commands returns the commands with which a user can show and force the lock on a command
// line.
func commands(holds []observe.Hold, name string) []string {
	if len(name) > 1000 || strings.Contains(name, "\x00") {
		return nil
	}
	list := []string{"holdfast inspect -- " + quoted(name)}
	if len(holds) > 0 && holds[0].Owner != "" {
		list = append(list, "holdfast force-unlock --holder "+quoted(holds[0].Owner)+" --reason '…' -- "+quoted(name))
	}
	return list
}

// stateOf describes the holders and the waiters of a lock.
func stateOf(e observe.State, shown detail) stateData {
	s := stateData{
		Kind: string(e.Kind), Count: countOf(e.Record), Token: shown.Token,
		Holders: e.Holders, Unnamed: max(0, e.Holders-len(e.Holds)),
		Waiting: waiting(e.Record), Hidden: waitersHidden(e.Record), MoreWait: max(0, e.Waiting-len(e.Waiters)),
	}
	for _, h := range e.Holds {
		s.Holds = append(s.Holds, holdOf(e, h))
	}
	for i := range s.Holds {
		h := &s.Holds[i]
		if s.Oldest == nil || h.Since.At.Before(s.Oldest.Since.At) {
			s.Oldest = h
		}
		if s.Next == nil || !h.Hold.Ends.IsZero() && (s.Next.Hold.Ends.IsZero() || h.Hold.Ends.Before(s.Next.Hold.Ends)) {
			s.Next = h
		}
	}
	if len(s.Holds) == 1 && s.Holders <= 1 {
		s.Only = &s.Holds[0]
	}
	for i, q := range e.Waiters {
		s.Waiters = append(s.Waiters, waiterData{person: describe(q.Client, q.Owner, q.Note), Place: i + 1, Mode: modeOf(e.Kind, q.Mode), Since: ago{e.Waits[q.Owner], true}})
	}
	named := map[string]bool{} // a client may wait to read and to write
	for _, w := range shown.Waits {
		named[w.Client.ID] = true
		since := shown.seen.Add(-w.Waited).Round(time.Second)
		s.Clients = append(s.Clients, waiterData{person: describe(w.Client, "", w.Client.Note), Count: w.Count, Mode: modeOf(e.Kind, w.Mode), Since: ago{since, false}})
	}
	s.MoreClients = max(0, e.Listeners-len(named))
	for _, list := range [][]waiterData{s.Waiters, s.Clients} {
		for i := range list {
			if s.Longest == nil || list[i].Since.At.Before(s.Longest.Since.At) {
				s.Longest = &list[i]
			}
		}
	}
	return s
}

// keys returns one row for each key of the lock in the store.
func keys(shown detail) (rows []keyData) {
	for _, k := range shown.Keys {
		row := keyData{Name: short(printable(k.Name), 400), Type: printable(k.Type), Value: short(lines(k.Value), 4000)}
		if k.Remaining >= 0 {
			row.Ends = shown.seen.Add(k.Remaining).Round(time.Second)
		}
		row.Unknown = k.Remaining == admin.RemainingUnknown
		rows = append(rows, row)
	}
	return rows
}
