package ordered

import (
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// The last line of Entry.Note is for programs, and names the owner of the claim. If the owner
// begins with the client, the line has the client, a blank and the rest of the owner. Otherwise
// the line has only a blank and the owner. Entries of other programs have no such line.

// noteOf returns the note of an entry for c.
func noteOf(c *driver.Claim) string {
	rest, ok := strings.CutPrefix(c.Owner, c.Client)
	if !ok {
		return c.Note + "\n " + c.Owner
	}
	return c.Note + "\n" + c.Client + " " + rest
}

// ClaimOf returns the ID of the claim whose entry has this note: see Label.ID. It returns ""
// if the note is not that of a claim.
func ClaimOf(note string) string {
	if _, client, rest, ok := cutNote(note); ok {
		return idOf(client + rest)
	}
	return ""
}

// parseNote splits Entry.Note into the note of the claim, its client and its owner. Label.ID
// begins with the ID of that owner. In an entry of another session, Label.ID is longer. If
// Entry.Note names no owner, or another one, parseNote returns the whole text as the note, and
// "" as client and owner.
func (e *Entry) parseNote() (note, client, owner string) {
	note, client, rest, ok := cutNote(e.Note)
	if !ok || !strings.HasPrefix(e.Label.ID, idOf(client+rest)) {
		return e.Note, "", ""
	}
	return note, client, client + rest
}

// cutNote returns the parts of the note `all`. `rest` is what the last line has after the
// client. `ok` is false if the note has no last line for programs.
func cutNote(all string) (note, client, rest string, ok bool) {
	end := strings.LastIndexByte(all, '\n')
	client, rest, ok = strings.Cut(all[end+1:], " ")
	return all[:max(end, 0)], client, rest, ok && end >= 0
}
