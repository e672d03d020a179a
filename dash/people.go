package dash

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
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

// contains reports that text, in small letters, is in p.
func (p purpose) contains(text string) bool {
	return strings.Contains(strings.ToLower(p.Reason), text) || strings.Contains(strings.ToLower(p.Labels), text)
}

const longPurpose = 200 // characters of a reason, or of labels, that are shown

// people describes the holder of h.
func people(h admin.Hold) person { return describe(h.Client, h.Owner, h.Note) }

// queued describes the waiters.
func queued(q admin.Waiter) person { return describe(q.Client, q.Owner, q.Note) }

func describe(c admin.Client, owner, note string) person {
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
		p.nameNote()
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
func (p *person) takeApart(c admin.Client) {
	program, rest, ok := strings.Cut(p.Note, "@"+printable(c.Host)+":")
	after := strings.TrimLeft(rest, "0123456789")
	if !ok || after == rest {
		return
	}
	if purpose, ok := purposeIn(after); ok {
		p.Note, p.purpose = program, purpose
		if program == printable(c.Program) {
			p.Note = ""
		}
	}
}

// nameNote makes a name of a note where that is all that is known. If the command
// line wrote it, what follows the process is the purpose.
func (p *person) nameNote() {
	process, rest, _ := strings.Cut(p.Note, " ")
	purpose, ok := purposeIn(" " + rest)
	if at := strings.LastIndexByte(process, '@'); ok && at > 0 && strings.Contains(process[at:], ":") {
		p.Name, p.Note, p.purpose = process, "", purpose
		return
	}
	p.Name, p.Note = p.Note, ""
}

// purposeIn reads " (reason) key=value", either of which may be missing. It reports
// whether rest is that, and not somebody's own words.
func purposeIn(rest string) (purpose, bool) {
	if rest != "" && rest[0] != ' ' {
		return purpose{}, false
	}
	p := purpose{Labels: strings.TrimSpace(rest)}
	if inner, found := strings.CutPrefix(p.Labels, "("); found {
		p.Reason, p.Labels = inner, ""
		if end := strings.LastIndexByte(inner, ')'); end >= 0 {
			p.Reason, p.Labels = inner[:end], strings.TrimSpace(inner[end+1:])
		}
	}
	first, _, _ := strings.Cut(p.Labels, " ")
	return p, p.Labels == "" || strings.Contains(first, "=")
}

// contains reports whether text, in small letters, is in what is shown of p.
func (p person) contains(text string) bool {
	return strings.Contains(strings.ToLower(p.text()), text) || p.purpose.contains(text)
}

// process names a process: "host · program · pid".
func process(c admin.Client) string {
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
