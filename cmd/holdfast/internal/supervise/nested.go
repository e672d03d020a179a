package supervise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// ownersVariable is the environment variable with the owners of all locks under which this
// program runs. For its command, "holdfast run" adds the owner of its own lock at the end. An
// owner is written as in the store.
const ownersVariable = "HOLDFAST_OWNERS"

// outerOwners returns the owners of the locks under which this program runs.
func outerOwners(env output.Environment) []string {
	all, _ := env.Lookup(ownersVariable)
	return strings.Fields(all)
}

// nested returns an error if the lock cannot become free before this program ends, because an
// owner in ownersVariable holds the lock. It asks the store for the holders.
func (p *progress) nested(ctx context.Context) error {
	outer := outerOwners(p.Env)
	if len(outer) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	records, err := p.console.Get(ctx, p.Name)
	if err != nil {
		return nil // without an answer the wait goes on
	}
	return inTheWay(records[0], outer, p.Shared)
}

// inTheWay returns the error of nested for the record r. A semaphore can become free if clients
// that are not in `outer` have permits, too. A read lock that owners in `outer` hold does not
// exclude this reader: if this reader waits, it waits for a writer, which may give up.
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
	holder := output.Person(own[0].Owner, own[0].Note, own[0].Client)
	return &output.ExitError{Code: output.ExitOwnFailure, Err: fmt.Errorf("lock %q is held by %s, which runs this command "+
		"and waits for its end: the command would wait for itself. Use another name, or take the lock only once", r.Name, holder)}
}
