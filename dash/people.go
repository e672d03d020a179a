package dash

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// person is a holder or a waiter, for people.
type person struct {
	Library string // "Redisson" for a client of that library, else ""
	Name    string // the program and where it runs, or what else there is
	Note    string // what it says of itself
	Owner   string // as it is in the store
}

// people describes who holds h.
func people(h driver.Hold) person { return describe(h.Client, h.Owner, h.Note) }

// queued describes who waits.
func queued(q driver.Queued) person { return describe(q.Client, q.Owner, q.Note) }

func describe(c driver.Client, owner, note string) person {
	p := person{Owner: printable(owner), Note: printable(note)}
	switch {
	case c.Library == "redisson":
		p.Library, p.Note = "Redisson", ""
		p.Name = "client " + short(printable(c.ID), 9)
		if _, thread, ok := strings.Cut(strings.TrimPrefix(owner, c.ID), ":"); ok {
			p.Name += " thread " + printable(strings.TrimSuffix(thread, ":write"))
		}
	case c.Program != "" || c.Host != "":
		p.Name, p.Note = process(c), printable(c.Note)
	case p.Note != "":
		p.Name, p.Note = p.Note, ""
	default:
		p.Name = p.Owner
	}
	p.Name, p.Note = short(p.Name, longName), short(p.Note, longName)
	if p.Note == p.Name || strings.HasPrefix(p.Note, c.Program+"@"+c.Host+":") {
		p.Note = "" // the default note says the same
	}
	return p
}

// process names a process: "host · program · pid".
func process(c driver.Client) string {
	var parts []string
	for _, part := range []string{c.Host, c.Program} {
		if part != "" {
			parts = append(parts, printable(part))
		}
	}
	if c.PID != 0 {
		parts = append(parts, "pid "+strconv.Itoa(c.PID))
	}
	return strings.Join(parts, " · ")
}

// text returns p in one line.
func (p person) text() string {
	text := p.Name
	if p.Library != "" {
		text = p.Library + " " + text
	}
	if p.Note != "" {
		text += " (" + p.Note + ")"
	}
	return text
}
