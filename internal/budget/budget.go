// Package budget keeps a list of locks within an admin.Filter: how many keys of a store
// it looks at, and how many commands it asks the store to run.
package budget

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// burst is how many commands are not held against the pace: the first page comes at
// once.
const burst = 200

// Budget is what one list may still cost. It is used by one goroutine at a time.
type Budget struct {
	filter admin.Filter
	begun  time.Time
	keys   int // that were looked at
	spent  int // commands
}

// New returns the Budget of a list that begins now.
func New(f admin.Filter) *Budget { return &Budget{filter: f, begun: time.Now()} }

// Page waits as Wait does, and returns how many keys the next command may look at, most
// at most: they count from then on, and so does the command. It returns
// admin.ErrIncomplete when no keys are left, and ctx's error when that ends.
func (b *Budget) Page(ctx context.Context, most int) (keys int, err error) {
	if keys = most; b.filter.Keys > 0 {
		keys = min(keys, b.filter.Keys-b.keys)
	}
	if keys <= 0 {
		return 0, admin.ErrIncomplete
	}
	if err := b.Wait(ctx); err != nil {
		return 0, err
	}
	b.keys += keys
	b.Spent(1)
	return keys, nil
}

// Spent counts commands that the store was asked to run.
func (b *Budget) Spent(commands int) { b.spent += commands }

// Wait waits until the pace allows another command, or returns ctx's error.
func (b *Budget) Wait(ctx context.Context) error {
	if b.filter.Pace > 0 && b.spent > burst {
		due := time.Duration(float64(b.spent-burst) / float64(b.filter.Pace) * float64(time.Second))
		retry.Sleep(ctx, time.Until(b.begun.Add(due)))
	}
	return ctx.Err()
}
