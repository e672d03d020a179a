package memhold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// logMost is how many entries the event log keeps.
const logMost = 1000

// eventLog has the entries that clients have appended.
type eventLog struct {
	last int // the number of the latest entry
	kept []logged
}

type logged struct {
	admin.Entry
	number int
	at     time.Time // when the entry was appended
}

// AppendLog adds entries to the event log, which keeps the latest 1,000 entries.
func (b *Backend) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	if err := ended(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, e := range entries {
		b.log.last++
		e.ID, e.Client, e.Note = strconv.Itoa(b.log.last), admin.Client{ID: by.ID, Note: by.Note, Library: "holdfast"}, by.Note
		b.log.kept = append(b.log.kept, logged{e, b.log.last, now})
	}
	b.log.kept = b.log.kept[max(0, len(b.log.kept)-logMost):]
	return nil
}

// ReadLog returns the entries of the event log that f selects, the oldest first.
func (b *Backend) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	var after int
	if f.After != "" {
		var err error
		if after, err = strconv.Atoi(f.After); err != nil {
			return nil, fmt.Errorf("memory: not an ID of the event log: %w", errors.Unwrap(err))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	most, since := cmp.Or(max(f.Limit, 0), logMost), time.Now().Add(-f.Last)
	var list []admin.Entry
	for _, h := range b.log.kept {
		if h.number > after && (f.After != "" || !h.at.Before(since)) && len(list) < most {
			list = append(list, h.Entry)
		}
	}
	return list, nil
}
