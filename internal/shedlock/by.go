package shedlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// The first word in locked_by. It is the state of the claim: held, released or force unlocked.
const (
	holds    = "holdfast"
	released = "holdfast-released"
	forced   = "holdfast-forced"
)

// by returns the value of the column locked_by. It replaces each character of `text` that is
// not printable ASCII by a question mark, because the column may have any character set. It
// shortens the value to maxBy characters.
func by(state, owner, text string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	all := state + " " + owner + " " + plain
	return all[:min(len(all), maxBy)]
}

// stored is a row as the database returns it.
type stored struct {
	name, by          string
	held, rest, since int64 // in microseconds: from locked_at until now, from now until lock_until, and from 1970 until locked_at
}

// row returns the Row for a stored row. If another program holds the lock, the owner in the Row
// contains the time of the grant. ShedLock writes only its host name, so without that time two
// holds of one host would have the same owner.
func (s *stored) row() rows.Row {
	r := rows.Row{Known: true, HeldFor: rows.Duration(s.held), Remaining: rows.Duration(s.rest)}
	state, rest, _ := strings.Cut(s.by, " ")
	owner, text, _ := strings.Cut(rest, " ")
	switch {
	case s.by == holds:
	case !strings.Contains(owner, ":"):
		r.Owner, r.Note, r.Peer = fmt.Sprintf("%s@%d", s.by, s.since), s.by, true
	case state == holds:
		r.Owner, r.Note = owner, text
	case state == released:
		r.Owner, r.Note = owner+driver.KeptOwner, text
	case state == forced:
		r.Forced, r.Reason = owner, text
	default:
		r.Owner, r.Note, r.Peer = fmt.Sprintf("%s@%d", s.by, s.since), s.by, true
	}
	return r
}

// us rounds d up to milliseconds, adds one millisecond, and returns the result in microseconds.
func us(d time.Duration) int64 {
	return int64((d+time.Millisecond-1)/time.Millisecond+1) * 1000
}
