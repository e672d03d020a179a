package ordered

import (
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// The note of an entry has a last line for programs: the client and the rest of the
// owner, with a blank between them. Entries of other programs do not have it.

// noteOf returns the note of an entry for c.
func noteOf(c *driver.Claim) string {
	rest, ok := strings.CutPrefix(c.Owner, c.Client)
	if !ok {
		return c.Note + "\n " + c.Owner
	}
	return c.Note + "\n" + c.Client + " " + rest
}

// read takes a note apart. Without an owner, which the ID has to confirm, with which that
// of another session may begin, all of it is the note.
func (e *Entry) read() (note, client, owner string) {
	end := strings.LastIndexByte(e.Note, '\n')
	client, rest, ok := strings.Cut(e.Note[end+1:], " ")
	if end < 0 || !ok || !strings.HasPrefix(e.Mark.ID, idOf(client+rest)) {
		return e.Note, "", ""
	}
	return e.Note[:end], client, client + rest
}

// people returns the note for people.
func (e *Entry) people() string {
	note, _, _ := e.read()
	return note
}
