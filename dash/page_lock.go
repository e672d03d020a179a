package dash

import (
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/driver"
)

const timelineRows = 100

// lockData is the page of one lock.
type lockData struct {
	Name, Title string
	Unlock      string // the address of the page that forces it; "" if the user may not force it
	State       stateData
	Keys        keysData
	Events      []eventData
	Charts      chartsData
}

// stateData is the holder of a lock, and its waiters.
type stateData struct {
	Free      bool
	Trouble   string
	Kind      string
	Count     string
	Token     uint64
	Holds     []holdData
	More      int
	Waiters   []waiterData
	MoreWait  int
	Clients   []clientData
	Listeners int // -1 if that is not known
	CLI       []string
}

type waiterData struct {
	person
	Place int
	Mode  string
	Since ago
}

// clientData is a client that waits without a position in a queue.
type clientData struct {
	person
	Count int
	Mode  string
	Since ago
}

type keysData struct{ Keys []keyData }

type keyData struct {
	Name, Type, Value string
	Forever, Unknown  bool
	Ends              int64
	Text              string
}

// lockData makes the page of name.
func (d *Dashboard) lockData(name string, shown detail, live, mayUnlock bool) lockData {
	text := printable(name)
	data := lockData{Name: short(text, 2*longName), Title: short(text, 2000), State: d.state(name, shown, live), Keys: keys(shown, live)}
	now := time.Now()
	happened := d.eventLog.of(name, time.Time{}, timelineRows, nil)
	data.Events = eventRows(happened, live)
	data.Charts = d.lockCharts(now, name)
	if mayUnlock && len(data.State.Holds) > 0 {
		data.Unlock = "unlock?name=" + url.QueryEscape(name)
	}
	data.State.CLI = d.commands(name)
	return data
}

// commands returns the commands that show and force the lock on a command line.
func (d *Dashboard) commands(name string) []string {
	if len(name) > 1000 || strings.Contains(name, "\x00") {
		return nil
	}
	list := []string{"holdfast inspect -- " + quoted(name)}
	if e, ok := d.table.Get(name); ok && len(e.Holds) > 0 && e.Holds[0].Owner != "" {
		list = append(list, "holdfast force-unlock --holder "+quoted(e.Holds[0].Owner)+" --reason '…' -- "+quoted(name))
	}
	return list
}

func (d *Dashboard) lockContent(q query, shown detail, live bool) content {
	data := d.lockData(q.name, shown, live, false)
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

// state describes the holders and the waiters of name now.
func (d *Dashboard) state(name string, shown detail, live bool) stateData {
	e, ok := d.table.Get(name)
	s := stateData{Free: !ok, Listeners: -1, Token: shown.Token}
	if shown.err != nil {
		s.Trouble = short(printable(shown.err.Error()), 300)
	}
	if !ok {
		if shown.Kind == admin.KindOther {
			s.Kind = "no lock: something else has this name"
		}
		return s
	}
	s.Kind, s.Count, s.Listeners = string(e.Kind), countOf(e.Record), e.Listeners
	for _, h := range e.Holds {
		s.Holds = append(s.Holds, holdOf(e, h, live))
	}
	s.More = max(0, e.Holders-len(e.Holds))
	for i, q := range e.Waiters {
		w := waiterData{person: queued(q), Place: i + 1, Since: since(e.Waits[q.Owner], true, live)}
		if e.Kind == admin.KindReadWrite || q.Mode == driver.Shared {
			w.Mode = q.Mode.String()
		}
		s.Waiters = append(s.Waiters, w)
	}
	s.MoreWait = max(0, e.Waiting-len(e.Waiters))
	s.Clients = clients(e, shown, live)
	return s
}

// clients returns the clients that report that they wait, without a position in a queue.
func clients(e observe.State, shown detail, live bool) (list []clientData) {
	for _, w := range shown.Waits {
		c := clientData{
			person: describe(w.Client, "", w.Client.Note), Count: w.Count,
			Since: since(shown.seen.Add(-w.Waited).Round(time.Second), false, live),
		}
		if e.Kind == admin.KindReadWrite || w.Mode == driver.Shared {
			c.Mode = w.Mode.String()
		}
		list = append(list, c)
	}
	return list
}

// keys returns one row for each key of the lock in the store.
func keys(shown detail, live bool) (data keysData) {
	for _, k := range shown.Keys {
		row := keyData{
			Name: short(printable(k.Name), 400), Type: printable(k.Type), Value: short(lines(k.Value), 4000), Forever: k.Remaining < 0 && k.Remaining != admin.RemainingUnknown, Unknown: k.Remaining == admin.RemainingUnknown,
		}
		if !row.Forever && !row.Unknown {
			ends := shown.seen.Add(k.Remaining).Round(time.Second)
			row.Ends = ends.UnixMilli()
			if !live {
				row.Text = span(k.Remaining)
			}
		}
		data.Keys = append(data.Keys, row)
	}
	return data
}
