package driver

import (
	"context"
	"time"
)

// Inspector is implemented by a Backend that can say who holds a name.
type Inspector interface {
	// Inspect returns who holds name, at one instant of the store.
	Inspect(ctx context.Context, name string) ([]Holder, error)
}

// Holder is one holder of a name, as the store shows it.
type Holder struct {
	Owner     string        // Claim.Owner, or what another client wrote in its place
	Note      string        // who that is, for people
	Holds     int           // its hold count
	Remaining time.Duration // what is left of its lease; negative if it has none
}

// Breaker is implemented by a Backend that can end somebody else's grant.
type Breaker interface {
	// Break ends exactly the grant h of name, as Inspect returned it, records
	// why and wakes waiters. It returns ErrGone if that grant no longer exists
	// or has changed.
	Break(ctx context.Context, name string, h Holder, why string) error
}
