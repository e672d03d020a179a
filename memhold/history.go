package memhold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var _ driver.Historian = (*Backend)(nil)

// historyMost is how many happenings are kept.
const historyMost = 1000

// history is what clients did.
type history struct {
	last int // the number of the latest
	kept []told
}

type told struct {
	driver.Happening
	number int
	at     time.Time // when it was told
}

// Record adds what a client did: the latest 1,000 happenings are kept.
func (b *Backend) Record(ctx context.Context, c driver.Chapter) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, h := range c.Happenings {
		b.history.last++
		h.ID, h.Client, h.Note = strconv.Itoa(b.history.last), driver.Client{ID: c.Client, Note: c.Note, Library: "holdfast"}, c.Note
		b.history.kept = append(b.history.kept, told{h, b.history.last, now})
	}
	b.history.kept = b.history.kept[max(0, len(b.history.kept)-historyMost):]
	return nil
}

// History returns what clients did.
func (b *Backend) History(ctx context.Context, o driver.HistoryOptions) ([]driver.Happening, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	var after int
	if o.After != "" {
		var err error
		if after, err = strconv.Atoi(o.After); err != nil {
			return nil, fmt.Errorf("memory: not an ID of the history: %w", errors.Unwrap(err))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most, since := cmp.Or(max(o.Most, 0), historyMost), time.Now().Add(-o.Past)
	var list []driver.Happening
	for _, h := range b.history.kept {
		if h.number > after && (o.After != "" || !h.at.Before(since)) && len(list) < most {
			list = append(list, h.Happening)
		}
	}
	return list, nil
}
