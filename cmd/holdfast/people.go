package main

import (
	"fmt"
	"strconv"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/clock"
)

// people names in a few words the holder that r is about.
func people(r admin.Record) string {
	switch {
	case len(r.Holds) == 0:
		return ""
	case r.Holders > 1:
		return fmt.Sprintf("%s and %d more", holderOf(r.Holds[0]), r.Holders-1)
	default:
		return holderOf(r.Holds[0])
	}
}

// holderOf names the holder, or says until when a name is taken that nobody holds.
func holderOf(h admin.Hold) string {
	who := person(h.Owner, h.Note, h.Client)
	if h.Kept() {
		return clock.TakenUntil(time.Now().Add(max(h.Remaining, 0))) + " (kept by " + who + ")"
	}
	return who
}

// person names an owner: "program@host:pid" with its reason and labels, or the client and
// the thread of a Redisson program.
func person(owner, note string, c admin.Client) string {
	return clean(observe.Describe(c, owner, note).String())
}

// clean makes what others wrote harmless for a terminal: one line, and nothing
// that moves the cursor.
func clean(s string) string {
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}
