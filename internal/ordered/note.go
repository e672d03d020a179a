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

// ClaimOf returns the ID of the claim with a note: Mark.ID. It is "" if the note is none of
// a claim.
func ClaimOf(note string) string {
	if _, client, rest, ok := split(note); ok {
		return idOf(client + rest)
	}
	return ""
}

// read takes a note apart. Without an owner, which the ID has to confirm, with which that
// of another session may begin, all of it is the note.
func (e *Entry) read() (note, client, owner string) {
	note, client, rest, ok := split(e.Note)
	if !ok || !strings.HasPrefix(e.Mark.ID, idOf(client+rest)) {
		return e.Note, "", ""
	}
	return note, client, client + rest
}

// split returns the parts of a note, if it has a last line for programs.
func split(all string) (note, client, rest string, ok bool) {
	end := strings.LastIndexByte(all, '\n')
	client, rest, ok = strings.Cut(all[end+1:], " ")
	return all[:max(end, 0)], client, rest, ok && end >= 0
}

// people returns the note for people.
func (e *Entry) people() string {
	note, _, _ := e.read()
	return note
}
