package demo

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
)

// A process of the demo gets its job as one line of JSON on its standard input, so that a
// password is not in the process list. Then it gets one word per line: "go", for a holder
// "finish", for an instance "cut" and "mend". It answers with one message per line. It ends
// when its input ends, so no process outlives the demo.
const (
	wordGo     = "go"
	wordFinish = "finish"
	wordCut    = "cut"  // cuts the network of an instance
	wordMend   = "mend" // ends "cut"
)

// job is what a process has to do.
type job struct {
	Role   role
	Access access.Access
	Locks  access.Access // the store of the locks; without a URL it is Access
	Keys   keys
	Name   string        // of the holder: "alice"
	Buyers int           // how many buyers to simulate
	Locked bool          // buyers: take the lock first
	Lease  time.Duration // TTL of the locks
	Work   time.Duration // instance: how long it works
	Log    bool          // record the events of the locks in the event log
}

type role string

const (
	roleBuyers  role = "buyers"  // many buyers, once
	roleStaller role = "staller" // holds until the lock is lost, then writes nevertheless
	roleHeir    role = "heir"    // waits for the lock, writes, holds until "finish"

	roleInstance role = "instance" // takes the lock of the page, works, writes, releases it
)

// message is what a process reports.
type message struct {
	Kind  kind
	Stock int64  `json:",omitempty"` // sold, soldOut: the stock that the buyer read
	Token uint64 `json:",omitempty"` // held, wrote: the fencing token; refused: the largest that the ledger has seen
	Lost  bool   `json:",omitempty"` // lost, unlocked: the error is holdfast.ErrLost
	Text  string `json:",omitempty"` // failed, lost, unlocked: the error; touched: the key

	Result *claimResult `json:",omitempty"` // answered
}

type kind string

const (
	ready    kind = "ready"    // connected, waits for "go"
	sold     kind = "sold"     // a buyer bought
	soldOut  kind = "sold out" // a buyer came too late
	held     kind = "held"     // a holder has the lock
	lost     kind = "lost"     // a holder's context ended
	wrote    kind = "wrote"    // the ledger accepted a holder's write
	refused  kind = "refused"  // the ledger refused it
	unlocked kind = "unlocked" // a holder called Unlock
	answered kind = "answered" // an instance has released its lock, or does not hold it any more
	touched  kind = "touched"  // the library is going to use a key
	failed   kind = "failed"   // an error that the demo does not show on purpose
	done     kind = "done"     // the last message
)
