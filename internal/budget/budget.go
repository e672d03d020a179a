// Package budget keeps a list of locks within the limits of an admin.Filter: how many keys of
// a store the list may read, and how many commands per second it may send.
package budget

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// burst is how many commands a list may send before Filter.Pace limits it, so that the first
// page comes at once.
const burst = 200

// Budget counts the keys that one list has read and the commands that it has sent, and keeps
// both within the limits of a filter. It is for one goroutine.
type Budget struct {
	filter admin.Filter
	begun  time.Time
	keys   int // the number of keys that were read so far
	spent  int // the number of commands that were sent so far
}

// New returns the Budget of a list that begins now.
func New(f admin.Filter) *Budget { return &Budget{filter: f, begun: time.Now()} }

// Page waits as Wait does, and returns how many keys the next command may read: the number
// `most`, or fewer if the filter allows fewer. It counts these keys, and the command. It
// returns admin.ErrIncomplete if the filter allows no more keys, and ctx's error if ctx ends
// during the wait.
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

// Spent counts commands that were sent to the store.
func (b *Budget) Spent(commands int) { b.spent += commands }

// Wait waits until the pace allows another command. It returns ctx's error if ctx ends
// first.
func (b *Budget) Wait(ctx context.Context) error {
	if b.filter.Pace > 0 && b.spent > burst {
		due := time.Duration(float64(b.spent-burst) / float64(b.filter.Pace) * float64(time.Second))
		retry.Sleep(ctx, time.Until(b.begun.Add(due)))
	}
	return ctx.Err()
}
