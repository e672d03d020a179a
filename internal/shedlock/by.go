package shedlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// What locked_by begins with.
const (
	holds    = "holdfast"
	released = "holdfast-released"
	forced   = "holdfast-forced"
)

// by returns what is written to locked_by. Text that is not ASCII is replaced, as the
// column may have any character set.
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

// row says what a row means. A hold of another program has its time in its owner: the
// host name alone, which ShedLock writes, does not tell two of its holds apart.
func (s *stored) row() rows.Row {
	r := rows.Row{Known: true, Held: rows.Duration(s.held), Rest: rows.Duration(s.rest)}
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

// us returns d in microseconds, rounded up to milliseconds, and one more of them.
func us(d time.Duration) int64 {
	return int64((d+time.Millisecond-1)/time.Millisecond+1) * 1000
}
