package rows

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// takenFor is how long the Engine expects a name to be taken, after a Try or a read found it
// taken.
const takenFor = time.Second

// expectsRefusal reports whether a Try of c would probably be refused, and change nothing in
// the row. In that case a read returns the same answer, and costs less than a Try.
func (e *Engine) expectsRefusal(c *driver.Claim) bool {
	if e.hub.shouldWait(c.Name, c.Owner) {
		return true
	}
	full, taken := e.taken.Get(c.Name)
	return taken && (c.NoQueue || full || e.hub.noQueue)
}

// readFirst reads rows in place of a Try that would probably be refused. The parameter
// `pending` has the indexes of the claims to try. If expectsRefusal reports true for such a
// claim cs[i], readFirst reads its row. It fills in answers[i] if the row shows that a Try
// would be refused. It returns the indexes of all other claims, which need a Try. A refused Try
// costs more than a read: it also locks the row for a moment, and uses up a transaction number.
func (e *Engine) readFirst(ctx context.Context, cs []driver.Claim, pending []int, versions []uint64, answers []driver.Attempt) (left []int) {
	var read []int
	var names []string
	for _, i := range pending {
		if e.expectsRefusal(&cs[i]) {
			read, names = append(read, i), append(names, cs[i].Name)
		} else {
			left = append(left, i)
		}
	}
	if len(read) == 0 {
		return pending
	}
	rows, err := call(ctx, e, e.tries, func() ([]Row, error) { return e.table.Read(ctx, names) })
	for n, i := range read {
		switch c := &cs[i]; {
		case err != nil:
			answers[i] = driver.Attempt{Err: fmt.Errorf("%s: try %q: %w", e.info.Name, c.Name, unsent.Error(err))}
		case e.refuses(&rows[n], c):
			answers[i].Outcome = e.recordAnswer(&rows[n], c, versions[i])
		default:
			left = append(left, i)
		}
	}
	return left
}

// refuses reports whether a Try of c would change nothing in the row r.
func (e *Engine) refuses(r *Row, c *driver.Claim) bool {
	if !r.Known || r.FreeIn(c.Owner) <= 0 || r.Owner == c.Owner {
		return false
	}
	return c.NoQueue || e.hub.queueRoom(r) <= 0 || slices.Contains(r.Waiters, c.Owner)
}

// recordAnswer returns the Outcome for the claim c, for which a Try or a read has returned the
// row r. It also remembers whether the name is taken.
func (e *Engine) recordAnswer(r *Row, c *driver.Claim, version uint64) driver.Outcome {
	if r.Granted {
		e.taken.Drop(c.Name)
	} else {
		e.taken.Add(c.Name, e.hub.queueRoom(r) <= 0, takenFor)
		e.hub.tryRefused(c.Name, c.Owner)
	}
	return r.answer(*c, version)
}
