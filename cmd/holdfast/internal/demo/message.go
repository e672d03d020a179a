package demo

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
)

// A process of the demo gets its job as one line of JSON on its standard input, so that a
// password is not in the process list. Then it gets one word per line. It answers with one
// message per line. It ends when its input ends, so no process outlives the demo.
const (
	wordGo   = "go"   // begins the job; a second "go" ends the work of a holder
	wordCut  = "cut"  // cuts the network
	wordMend = "mend" // restores the network
)

// job is what a process has to do: it simulates buyers, or takes the lock once and works.
type job struct {
	Access open.Access
	Locks  open.Access   // the store of the locks; if it has no URL, the locks are in the Redis of Access
	Keys   keys          // the names of the keys and of the lock
	Lease  time.Duration // TTL of the lock
	Log    bool          // record the events of the lock in the event log
	Name   string        // the name of the process in texts, such as "alice"

	Buyers int  // how many buyers to simulate
	Locked bool // each buyer first takes the lock

	Work time.Duration // for how long a holder works at most; 0 for buyers
	Late bool          // the holder writes to the ledger only after it has lost the lock
}

// message is what a process reports.
type message struct {
	Kind  kind
	Stock int64         `json:",omitempty"` // sold, soldOut: the stock that the buyer read
	Token uint64        `json:",omitempty"` // held, wrote: the fencing token; refused: the largest token that the ledger has seen
	Took  time.Duration `json:",omitempty"` // held: the time since the request; unlocked: the time since the grant
	Text  string        `json:",omitempty"` // lost, unlocked, failed, died: the error; touched: the key
}

type kind string

const (
	ready    kind = "ready"    // connected, waits for "go"
	sold     kind = "sold"     // a buyer bought
	soldOut  kind = "sold out" // a buyer came too late
	held     kind = "held"     // a holder has the lock
	lost     kind = "lost"     // a holder has noticed that it lost the lock
	wrote    kind = "accepted" // the ledger accepted a holder's write
	refused  kind = "refused"  // the ledger refused a holder's write
	unlocked kind = "unlocked" // a holder called Unlock; if Text is set, Unlock returned ErrLost
	touched  kind = "touched"  // the process is going to use a key
	done     kind = "done"     // the last message, after success
	failed   kind = "failed"   // the last message, after an error that is no part of the demo
	died     kind = "died"     // the process has ended without a last message
)
