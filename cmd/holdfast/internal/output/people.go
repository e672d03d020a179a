package output

import (
	"fmt"
	"strconv"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// People returns a short text about the holders of r: the first one, and how many more there
// are.
func People(r admin.Record) string {
	switch {
	case len(r.Holds) == 0:
		return ""
	case r.Holders > 1:
		return fmt.Sprintf("%s and %d more", holderOf(r.Holds[0]), r.Holders-1)
	default:
		return holderOf(r.Holds[0])
	}
}

// holderOf returns the name of the holder. If nobody holds the name, it returns until when it
// stays taken.
func holderOf(h admin.Hold) string {
	who := Person(h.Owner, h.Note, h.Client)
	if h.Kept() {
		return clock.TakenUntil(time.Now().Add(max(h.Remaining, 0))) + " (kept by " + who + ")"
	}
	return who
}

// Person returns the name of an owner: "program@host:pid" with its reason and labels, or the
// client and the thread of a Redisson program.
func Person(owner, note string, c admin.Client) string {
	return Clean(observe.Describe(c, owner, note).String())
}

// Clean returns s with its unprintable characters escaped, so that a text of another program
// stays on one line of a terminal and does not move the cursor.
func Clean(s string) string {
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}
