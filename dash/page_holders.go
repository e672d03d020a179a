package dash

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

const (
	holderRows  = 200
	holderNames = 5
)

// holdersData is the page Holders.
type holdersData struct {
	Rows  []holderData
	More  int
	Empty emptyData
}

// holderData is one process.
type holderData struct {
	person
	ID            string
	Held, Waiting int
	Started       time.Time
	Names         []linkData
	More          int
}

// holdersContent groups holds and waiters by process.
func (d *Dashboard) holdersContent(query, extras) content {
	list := slices.SortedFunc(d.table.All, func(a, b observe.State) int { return cmp.Compare(a.Name, b.Name) })
	byClient := map[string]*holderData{}
	find := func(c admin.Client, owner, note string) *holderData {
		key := c.ID
		if key == "" {
			key = c.Host + "\x00" + c.Program + "\x00" + note // for a store that knows only notes
		}
		h := byClient[key]
		if h == nil {
			h = &holderData{person: describe(c, owner, note), ID: identity("p-", key), Started: c.Started}
			if c.Library == "redisson" { // without the thread: several threads of one client may have holds
				h.Name = "client " + printable(c.ID)
			}
			byClient[key] = h
		}
		return h
	}
	for _, e := range list {
		for _, hold := range e.Holds[:min(e.Holders, len(e.Holds))] {
			h := find(hold.Client, hold.Owner, hold.Note)
			if h.Held++; h.Held <= holderNames {
				h.Names = append(h.Names, linkTo(e.Name, 40))
			}
			h.More = max(0, h.Held-holderNames)
		}
		for _, q := range e.Waiters {
			find(q.Client, q.Owner, q.Note).Waiting++
		}
	}
	rows := make([]holderData, 0, len(byClient))
	for _, h := range byClient {
		rows = append(rows, *h)
	}
	slices.SortFunc(rows, func(a, b holderData) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	data := holdersData{More: max(0, len(rows)-holderRows), Rows: rows[:min(holderRows, len(rows))]}
	data.Empty = emptyData{Empty: len(rows) == 0, Looking: d.table.now().ended.IsZero()}
	c := content{title: "Holders", page: "holders", data: data, parts: []part{{"empty", "empty", data.Empty}}}
	for _, row := range data.Rows {
		c.rows = append(c.rows, part{row.ID, "holder", row})
	}
	return c
}
