package dash

import (
	"cmp"
	"slices"

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
	Started       stamp
	Names         []nameData
	More          int
}

type nameData struct{ Name, Link string }

// holdersContent groups holds and waiters by process.
func (d *Dashboard) holdersContent(live bool) content {
	list, _, p := d.table.all(nil)
	slices.SortFunc(list, func(a, b observe.State) int { return cmp.Compare(a.Name, b.Name) })
	byClient := map[string]*holderData{}
	find := func(c admin.Client, owner, note string) *holderData {
		key := c.ID
		if key == "" {
			key = c.Host + "\x00" + c.Program + "\x00" + note // a store that knows notes only
		}
		h := byClient[key]
		if h == nil {
			h = &holderData{person: client(c, owner, note), ID: identity("p-", key), Started: stamped(c.Started, live)}
			byClient[key] = h
		}
		return h
	}
	for _, e := range list {
		for _, hold := range e.Holds[:min(e.Holders, len(e.Holds))] {
			find(hold.Client, hold.Owner, hold.Note).holds(e.Name)
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
	data.Empty = emptyData{Empty: len(rows) == 0, Looking: p.ended.IsZero()}
	c := content{title: "Holders", page: "holders", data: data, parts: []part{{"empty", "empty", data.Empty}}}
	for _, row := range data.Rows {
		c.rows = append(c.rows, part{row.ID, "holder", row})
	}
	return c
}

// client describes a client without the thread of Redisson, because one client may have holds
// of several threads.
func client(c admin.Client, owner, note string) person {
	p := describe(c, owner, note)
	if c.Library == "redisson" {
		p.Name = "client " + printable(c.ID)
	}
	return p
}

func (h *holderData) holds(name string) {
	h.Held++
	if len(h.Names) < holderNames {
		h.Names = append(h.Names, nameData{short(printable(name), 40), lockLink(name)})
	} else {
		h.More++
	}
}
