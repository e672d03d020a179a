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

// ownersVariable is the variable with the owners of all locks that this program runs under,
// as the store knows them: the owner of the run that started this program, of the run that
// started that run, and so on.
const ownersVariable = "HOLDFAST_OWNERS"

// outerOwners returns the owners of the locks that the program runs under.
func outerOwners(env output.Environment) []string {
	all, _ := env.Lookup(ownersVariable)
	return strings.Fields(all)
}

// nestedError is the error of a lock that is held by a run that waits for this program to
// end.
type nestedError struct{ name, holder string }

// Error implements error.
func (e *nestedError) Error() string {
	return fmt.Sprintf("lock %q is held by %s, which runs this command and waits for its end: it would wait for itself. "+
		"Use another name, or take the lock only once", e.name, e.holder)
}

// Is makes errors.Is(err, holdfast.ErrDeadlock) true.
func (e *nestedError) Is(target error) bool { return target == holdfast.ErrDeadlock }

// nested returns an error if the lock cannot become free before this program ends, because
// outer owners hold it. It asks the store for the holders.
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

// inTheWay returns the error of nested for the record r. A semaphore can become free if other
// clients have permits, too. A read lock that outer owners hold does not exclude another
// reader: if the reader waits, it waits for a writer, which may give up.
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
