package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// ownersVariable has the owners, as the store knows them, of all locks that this program
// runs under: that of the run that started it, of the run that started that, and so on.
const ownersVariable = "HOLDFAST_OWNERS"

// outerOwners returns the owners of the locks that the program runs under.
func outerOwners(env output.Environment) []string {
	all, _ := env.Lookup(ownersVariable)
	return strings.Fields(all)
}

// nestedError says that a lock is held by a run that waits for this program to end.
type nestedError struct{ name, holder string }

// Error implements error.
func (e *nestedError) Error() string {
	return fmt.Sprintf("lock %q is held by %s, which runs this command and waits for its end: it would wait for itself. "+
		"Use another name, or take the lock only once", e.name, e.holder)
}

// Is makes errors.Is(err, holdfast.ErrDeadlock) true.
func (e *nestedError) Is(target error) bool { return target == holdfast.ErrDeadlock }

// nested returns an error if a lock that is asked for cannot become free before this
// program ends: if outer owners are in the way. It asks the store for the holder.
func (p *progress) nested(ctx context.Context) error {
	if len(p.outer) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	records, err := p.console.Get(ctx, p.Name)
	if err != nil || len(records) != 1 {
		return nil // without an answer the wait goes on
	}
	return inTheWay(records[0], p.outer, p.Shared)
}

// inTheWay is nested for what the store says of a lock. A semaphore becomes free before, if
// others have permits too; so may a lock that is held to read, if it is asked for to read:
// a writer, which may give up, stands between.
func inTheWay(r admin.Record, outer []string, shared bool) error {
	var own []admin.Hold
	for _, h := range r.Holds {
		if slices.Contains(outer, h.Owner) && (h.Mode == driver.Exclusive || !shared) {
			own = append(own, h)
		}
	}
	if len(own) == 0 || r.Kind == admin.KindSemaphore && len(own) < r.Holders {
		return nil
	}
	return &nestedError{name: r.Name, holder: output.Person(own[0].Owner, own[0].Note, own[0].Client)}
}
