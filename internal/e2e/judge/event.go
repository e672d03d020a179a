package judge

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast"
)

// What an Event says.
const (
	Called     = "called"     // the lock is asked for
	Granted    = "granted"    // the call returned a lock
	Failed     = "failed"     // the call returned an error
	Renewed    = "renewed"    // the store confirmed a hold
	Unlock     = "unlock"     // Unlock is called
	Unlocked   = "unlocked"   // Unlock returned
	Lost       = "lost"       // the holder was notified of a loss
	Read       = "read"       // the holder read what the lock protects
	Wrote      = "wrote"      // the holder wrote what the lock protects
	Paused     = "paused"     // the process was stopped: written by the parent
	Resumed    = "resumed"    // likewise
	Killed     = "killed"     // likewise
	Stalled    = "stalled"    // the process did not run for Left until now, by its own watch
	Silent     = "silent"     // the store let a call wait for Left until now. Of no operation
	Unanswered = "unanswered" // a call to take Name had no answer. Of no operation
)

// Side is what a hold keeps out.
type Side string

// Sides.
const (
	Exclusive Side = "exclusive" // everybody
	Writer    Side = "write"     // everybody
	Reader    Side = "read"      // writers
	Permit    Side = "permit"    // nobody, up to a number
)

// Alone says that a hold of this side may have no other beside it.
func (s Side) Alone() bool { return s == Exclusive || s == Writer }

// Event is one line of a history.
type Event struct {
	At    int64  // wall clock, nanoseconds
	What  string // one of the constants above
	Op    int64  // which operation of the process; -1 for the whole process
	Name  string `json:",omitempty"` // with Called
	Side  Side   `json:",omitempty"` // with Called
	Token uint64 `json:",omitempty"` // with Granted
	Lease int64  `json:",omitempty"` // nanoseconds, with Called
	Fixed bool   `json:",omitempty"` // with Called: the lease is not renewed
	Try   bool   `json:",omitempty"` // with Called: it does not wait
	Left  int64  `json:",omitempty"` // nanoseconds, with Granted and Renewed: Lock.Remaining
	Err   string `json:",omitempty"` // "busy", "lost" or the error's text

	Watched bool             `json:",omitempty"` // with Granted: each Renewed is written down
	Given   bool             `json:",omitempty"` // with Granted: the lease may have begun before, with another holder
	Figures map[string]int64 `json:",omitempty"` // what a worker reports of itself

	Process int `json:",omitempty"` // which run of a worker: set by the parent
}

// String is the event in a line for people.
func (e Event) String() string {
	text := fmt.Sprintf("%s process %d op %d %s", time.Unix(0, e.At).Format("05.000000"), e.Process, e.Op, e.What)
	if e.Name != "" {
		text += fmt.Sprintf(" %s %q", e.Side, e.Name)
	}
	if e.Token != 0 {
		text += fmt.Sprintf(" token %d", e.Token)
	}
	if e.Left != 0 {
		text += fmt.Sprintf(" %v", time.Duration(e.Left))
	}
	if e.Err != "" {
		text += ": " + e.Err
	}
	return text
}

// whole says that the event is about a process, not about an operation.
func (e Event) whole() bool {
	return e.What == Killed || e.What == Paused || e.What == Resumed || e.What == Stalled
}

// Never is an instant that does not come.
const Never = int64(math.MaxInt64)

// ErrorWord returns what a history says of an error.
func ErrorWord(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, holdfast.ErrBusy):
		return "busy"
	case errors.Is(err, holdfast.ErrLost):
		return "lost"
	default:
		return err.Error()
	}
}
