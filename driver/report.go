package driver

import (
	"context"
	"time"
)

// Reporter is implemented by a Backend that keeps for people what a client holds
// and waits for. What it keeps decides nothing.
type Reporter interface {
	// Report replaces what is kept of the client r.Client. While the client has
	// holds or waits that are older than some seconds it is called every few
	// seconds, with all of them, and once more without any when the last is over;
	// never for a client whose holds and waits are all shorter than that. One that
	// is not heard of any more is forgotten by itself. An error costs nothing but
	// what is shown.
	Report(ctx context.Context, r Report) error
}

// Report is what a client holds and waits for, as far as it is older than some
// seconds. A client that has very much of it names the oldest only.
type Report struct {
	Client string        // Claim.Client
	Note   string        // Claim.Note
	TTL    time.Duration // the longest of its leases

	Holds     []ReportedHold // the longest first
	MoreHolds int            // how many there are besides, about
	Waits     []ReportedWait // the longest first
	MoreWaits int            // for how many names it waits besides, about
}

// ReportedHold is a grant in the hands of its present holder.
type ReportedHold struct {
	Name            string
	Owner           string // Claim.Owner
	Mode            Mode
	Fair, ReadWrite bool          // as of its Claim
	Token           uint64        // of the present holder, where the grant was handed on; 0 if the store has none
	HeldFor         time.Duration // by the present holder
}

// ReportedWait is a name that goroutines of the client wait for without a place in
// a queue of the store.
type ReportedWait struct {
	Name      string
	Mode      Mode
	ReadWrite bool          // as of the Claims
	Waited    time.Duration // the longest of them, at least
	Count     int           // how many goroutines wait
}
