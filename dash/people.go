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
	Note    string // what it says of itself, beside its purpose
	Owner   string // as it is in the store
	purpose
}

// purpose is why somebody holds a lock, in his own words.
type purpose struct {
	Reason string // --reason of the command line
	Labels string // its --label, "key=value key=value"
}

// says reports that text, in small letters, is in p.
func (p purpose) says(text string) bool {
	return strings.Contains(strings.ToLower(p.Reason), text) || strings.Contains(strings.ToLower(p.Labels), text)
}

const longPurpose = 200 // characters of a reason, or of labels, that are shown

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
		p.takeApart(c)
	case p.Note != "":
		p.Name, p.Note = p.Note, ""
	default:
		p.Name = p.Owner
	}
	p.Name, p.Note = short(p.Name, longName), short(p.Note, longName)
	p.Reason, p.Labels = short(p.Reason, longPurpose), short(p.Labels, longPurpose)
	if p.Note == p.Name {
		p.Note = ""
	}
	return p
}

// takeApart takes out of a note what the process says anyway, and what has a place
// of its own: "program@host:pid (reason) key=value". A library's default note is the
// first word, the command line's is all of it, with the command that it runs as the
// program.
func (p *person) takeApart(c driver.Client) {
	program, rest, ok := strings.Cut(p.Note, "@"+printable(c.Host)+":")
	pid := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	rest = rest[pid:]
	if !ok || pid == 0 || rest != "" && rest[0] != ' ' {
		return
	}
	reason, labels := "", strings.TrimSpace(rest)
	if inner, found := strings.CutPrefix(labels, "("); found {
		reason, labels = inner, ""
		if end := strings.LastIndexByte(inner, ')'); end >= 0 {
			reason, labels = inner[:end], strings.TrimSpace(inner[end+1:])
		}
	}
	if first, _, _ := strings.Cut(labels, " "); labels != "" && !strings.Contains(first, "=") {
		return // somebody's own words
	}
	p.Note, p.Reason, p.Labels = program, reason, labels
	if program == printable(c.Program) {
		p.Note = ""
	}
}

// says reports whether text, in small letters, is in what is shown of p.
func (p person) says(text string) bool {
	return strings.Contains(strings.ToLower(p.text()), text) || p.purpose.says(text)
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
