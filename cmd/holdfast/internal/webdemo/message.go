package webdemo

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
)

// An instance is given its task as one line of JSON on its standard input (so
// that a password is not in the process list), then one order per line. It
// answers with one message per line. When its input ends it releases its locks
// and ends: no instance outlives the page.

// task is what an instance is.
type task struct {
	Access access.Access
	Note   string
	Lease  time.Duration
}

// order is what an instance has to do.
type order struct {
	Verb verb
	Job  int           `json:",omitempty"` // lock, drop
	Work time.Duration `json:",omitempty"` // lock: how long to work
}

type verb string

const (
	verbLock verb = "lock" // take the lock, work, release it
	verbDrop verb = "drop" // end that job, whatever it is at
	verbCut  verb = "cut"  // cut the network
	verbMend verb = "mend"
)

// message is what an instance reports.
type message struct {
	Kind  kind
	Job   int    `json:",omitempty"`
	Token uint64 `json:",omitempty"` // held, wrote: the fencing token; refused: the larger one that the ledger has seen
	Lost  bool   `json:",omitempty"` // ended: the lock was lost
	Text  string `json:",omitempty"` // lost, ended: the error
}

type kind string

const (
	ready   kind = "ready"   // connected
	held    kind = "held"    // a job has the lock
	lost    kind = "lost"    // a job learned that it has lost the lock
	wrote   kind = "wrote"   // the ledger accepted the last write of a job
	refused kind = "refused" // the ledger refused it
	ended   kind = "ended"   // a job is over
	cutOff  kind = "cut"     // the network is cut
	mended  kind = "mended"  // the network works again
)
