package observe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
)

// Person is a holder or a waiter, as operators read it. Clients wrote these texts, so they
// may have any bytes.
type Person struct {
	Library string // "Redisson" for a client of that library, else ""
	Name    string // "program@host:pid"; for Redisson the client and the thread; if neither is known, the note or the owner
	Note    string // the note of the client; "" if Name is made from the note
	Purpose
}

// Purpose is why a client holds a lock.
type Purpose struct {
	Reason string // --reason of the command line
	Labels string // --label of the command line, "key=value key=value"
}

// Describe returns the Person for a client. It uses the owner of the client's hold and the
// note, as the store has them. Each of the three parameters may be empty.
func Describe(c admin.Client, owner, note string) Person {
	note = cmp.Or(c.Note, note)
	if c.Library == "redisson" {
		p := Person{Library: "Redisson", Name: "client " + c.ID}
		if thread, ok := strings.CutPrefix(owner, c.ID+":"); ok {
			p.Name += " thread " + strings.TrimSuffix(thread, ":write")
		}
		return p
	}
	if c.Program == "" {
		return named(cmp.Or(note, owner))
	}
	place := fmt.Sprintf("@%s:%d", c.Host, c.PID)
	if strings.Contains(note, place) {
		return named(note)
	}
	return Person{Name: c.Program + place, Note: note}
}

// named returns the Person for a note or an owner. The default note of a program is
// "program@host:pid". The command line appends a reason and labels, as in "program@host:pid
// (reason) key=value"; each of the two may be missing. If the text has another form, all of
// it is the Name.
func named(text string) Person {
	at := strings.IndexByte(text, '@')
	end := at + 1 + strings.IndexByte(text[at+1:]+" ", ' ')
	if at <= 0 || !strings.Contains(text[at:end], ":") {
		return Person{Name: text}
	}
	p := Person{Name: text[:end]}
	p.Labels = strings.TrimSpace(text[end:])
	if inner, found := strings.CutPrefix(p.Labels, "("); found {
		p.Reason, p.Labels = inner, ""
		if end := strings.LastIndexByte(inner, ')'); end >= 0 {
			p.Reason, p.Labels = inner[:end], strings.TrimSpace(inner[end+1:])
		}
	}
	if first, _, _ := strings.Cut(p.Labels, " "); p.Labels != "" && !strings.Contains(first, "=") {
		return Person{Name: text} // the note is a text of the program itself
	}
	return p
}

// Who returns the Person without its purpose, on one line.
func (p Person) Who() string {
	text := p.Name
	if p.Library != "" {
		text = p.Library + " " + text
	}
	if p.Note != "" {
		text += " (" + p.Note + ")"
	}
	return text
}

// String returns the Person with its purpose, on one line.
func (p Person) String() string {
	text := p.Who()
	if p.Reason != "" {
		text += " (" + p.Reason + ")"
	}
	if p.Labels != "" {
		text += " " + p.Labels
	}
	return text
}
