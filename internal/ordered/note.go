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

// ClaimOf returns the ID of the claim with a note: Label.ID. It returns "" if the note is
// not that of a claim.
func ClaimOf(note string) string {
	if _, client, rest, ok := cutNote(note); ok {
		return idOf(client + rest)
	}
	return ""
}

// parseNote takes the note apart. The whole text is the note if it names no owner, or an
// owner that Label.ID does not confirm. The ID of an entry of another session begins with
// that of its owner.
func (e *Entry) parseNote() (note, client, owner string) {
	note, client, rest, ok := cutNote(e.Note)
	if !ok || !strings.HasPrefix(e.Label.ID, idOf(client+rest)) {
		return e.Note, "", ""
	}
	return note, client, client + rest
}

// cutNote returns the parts of a note, if it has a last line for programs.
func cutNote(all string) (note, client, rest string, ok bool) {
	end := strings.LastIndexByte(all, '\n')
	client, rest, ok = strings.Cut(all[end+1:], " ")
	return all[:max(end, 0)], client, rest, ok && end >= 0
}

// noteText returns the note without its line for programs.
func (e *Entry) noteText() string {
	note, _, _ := e.parseNote()
	return note
}
