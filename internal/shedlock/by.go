package shedlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// The first word in locked_by.
const (
	holds    = "holdfast"
	released = "holdfast-released"
	forced   = "holdfast-forced"
)

// by returns the value of locked_by. Text that is not ASCII is replaced, because the column
// may have any character set.
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

// stored is a row as it is read.
type stored struct {
	name, by          string
	held, rest, since int64 // microseconds; since 1970
}

// row returns the Row that a stored row stands for. The owner of another program's hold
// contains its time, because ShedLock writes only the host name, which does not distinguish
// two of its holds.
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

// us returns d in microseconds, rounded up to milliseconds, plus one millisecond.
func us(d time.Duration) int64 {
	return int64((d+time.Millisecond-1)/time.Millisecond+1) * 1000
}
