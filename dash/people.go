package dash

import (
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
)

// person is a holder or a waiter, as pages show it.
type person struct {
	observe.Person
	Owner string // the owner of the hold or the wait, as the store has it
}

const longPurpose = 200 // the most characters that are shown of a reason, or of labels

// people describes the holder of h.
func people(h admin.Hold) person { return describe(h.Client, h.Owner, h.Note) }

func describe(c admin.Client, owner, note string) person {
	p := observe.Describe(c, owner, note)
	if p.Library != "" { // the random id of a client would fill a row
		p.Name = strings.Replace(p.Name, c.ID, short(c.ID, 9), 1)
	}
	p.Name, p.Note = short(printable(p.Name), longName), short(printable(p.Note), longName)
	p.Reason, p.Labels = short(printable(p.Reason), longPurpose), short(printable(p.Labels), longPurpose)
	return person{p, printable(owner)}
}
