package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/admin"
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

// person says who an owner is: "program@host:pid" with what it has to say, or the
// client and the thread of a Redisson program.
func person(owner, note string, c admin.Client) string {
	if c.Library == "redisson" {
		thread := strings.TrimPrefix(owner, c.ID+":")
		return "Redisson " + clean(c.ID) + " thread " + clean(thread)
	}
	if c.Program == "" {
		if note != "" {
			return clean(note)
		}
		return clean(owner)
	}
	process := fmt.Sprintf("%s@%s:%d", c.Program, c.Host, c.PID)
	said := c.Note
	if said == "" {
		said = note
	}
	switch {
	case said == "" || said == process:
		return clean(process)
	case strings.Contains(said, fmt.Sprintf("@%s:%d", c.Host, c.PID)):
		return clean(said) // it names the process already
	default:
		return clean(process + " (" + said + ")")
	}
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
