package driver

import (
	"context"
	"time"
)

// Historian is implemented by a Backend that keeps for people what its clients did,
// for a while. What it keeps decides nothing, and has holes: a client tells at most
// so much a second, later, and once.
type Historian interface {
	// Record adds what a client did. It is called about every second. An error
	// means that some of it may be missing; it is not told again.
	Record(ctx context.Context, c Chapter) error

	// History returns what is kept of all clients, the earliest first as it was
	// told, which is about a second after it happened.
	History(ctx context.Context, o HistoryOptions) ([]Happening, error)
}

// Chapter is what one client did.
type Chapter struct {
	Client     string // what its Claim.Owners begin with
	Note       string // Claim.Note
	Happenings []Happening
}

// HistoryOptions say which part of a history is wanted: what was told after the
// Happening whose ID is After, or where that is empty, within Past. Most bounds how
// many come at once; 0 means 1000.
type HistoryOptions struct {
	Past  time.Duration
	After string
	Most  int
}

// Step says what a Happening is.
type Step string

// What happens to a lock, as its client tells it.
const (
	StepWaiting     Step = "waiting"      // began to wait
	StepAcquired    Step = "acquired"     // has it
	StepGaveUp      Step = "gave-up"      // waited, and does not have it
	StepRenewedLate Step = "renewed-late" // with less of the lease left than should be
	StepReleased    Step = "released"     // gave it back
	StepLost        Step = "lost"         // held it, and could not be sure any more that it does
	StepForced      Step = "forced"       // ended the hold of somebody else
	StepMissed      Step = "missed"       // of Count happenings nothing is told
)

// Rare reports that a step is one that somebody will look for, however much else
// happened.
func (s Step) Rare() bool {
	return s == StepLost || s == StepForced || s == StepRenewedLate
}

// Happening is something that a client did, or that happened to it. Fields that do
// not matter for its Step are zero.
type Happening struct {
	ID     string // set by History: its place, for HistoryOptions.After
	Step   Step
	At     time.Time // by the clock of the process that asks, to about a network delay
	Client Client    // set by History
	Note   string    // likewise

	Name  string
	Kind  Kind
	Mode  Mode
	Token uint64

	Waited time.Duration // acquired, gave-up
	Held   time.Duration // released, lost
	Left   time.Duration // renewed-late: of the lease, before
	Owner  string        // of the hold, as Holder.Owner; "" where there is none
	Reason string        // lost: a Reason; forced: what was given as the reason; released: "not confirmed"
	Count  int           // missed
}
