package rows

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/budget"
)

// pageMost is how many rows List reads with one statement at most.
const pageMost = 500

// List yields the names that are taken, in the order of their bytes. It reads the table in
// pages. A page also has the rows of free names. So f.Keys limits how many rows List reads, not
// how many names it yields. f.Counters has no effect.
func (e *Engine) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		b, from, after := budget.New(f), Escape(wholeRunes(f.NamePrefix)), ""
		for {
			page, more, err := e.page(ctx, b, from, after)
			if err != nil {
				yield(admin.Record{}, err)
				return
			}
			for _, row := range page {
				if after = row.Key; !strings.HasPrefix(row.Key, from) {
					return // keys are sorted: no later key begins with the prefix
				}
				name := Unescape(row.Key)
				r := row.record(name)
				if isTx(row.Key) || r.Kind == "" || !strings.HasPrefix(name, f.NamePrefix) {
					continue
				}
				if !yield(r, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// page returns one page, which has at most pageMost rows. The result `more` is true if the
// table may have further rows after this page.
func (e *Engine) page(ctx context.Context, b *budget.Budget, from, after string) (page []KeyedRow, more bool, err error) {
	most, err := b.Page(ctx, pageMost)
	if err != nil {
		return nil, false, err
	}
	page, err = call(ctx, e, nil, func() ([]KeyedRow, error) { return e.table.Page(ctx, from, after, most) })
	if err != nil {
		return nil, false, fmt.Errorf("%s: list locks: %w", e.info.Name, err)
	}
	return page, len(page) == most, nil
}

// wholeRunes returns prefix. If the last rune of prefix is incomplete, it returns prefix
// without that rune. Escape replaces the bytes of an incomplete rune, but does not replace a
// complete one. So if a name completes the rune, its key does not begin with Escape(prefix).
func wholeRunes(prefix string) string {
	for i := max(0, len(prefix)-utf8.UTFMax+1); i < len(prefix); i++ {
		if utf8.RuneStart(prefix[i]) && !utf8.FullRuneInString(prefix[i:]) {
			return prefix[:i]
		}
	}
	return prefix
}

// Get returns one Record for each name, made from the row of the name. Record.Waiters may have
// waiters that have died, because a dead waiter stays in the queue while the lock is held.
// Record.Listeners is -1, because the number of listening clients is not known.
func (e *Engine) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	records := make([]admin.Record, 0, len(names))
	var failed error
	for chunk := range slices.Chunk(names, chunkMost) {
		rows, err := e.readRows(ctx, chunk)
		if err != nil {
			failed = err
		}
		for i, name := range chunk {
			if err != nil {
				records = append(records, admin.Record{Name: name, Kind: admin.KindUnknown})
				continue
			}
			records = append(records, rows[i].record(name))
		}
	}
	return records, failed
}

// readRows returns the rows of the given names, in the same order.
func (e *Engine) readRows(ctx context.Context, names []string) ([]Row, error) {
	rows, err := call(ctx, e, nil, func() ([]Row, error) { return e.table.Read(ctx, names) })
	if err != nil {
		return nil, fmt.Errorf("%s: look at %d names: %w", e.info.Name, len(names), err)
	}
	return rows, nil
}

// Describe returns a Detail with the Record that Get returns. If the table has a row for the
// name, the Detail also has the last token, and the row as text.
func (e *Engine) Describe(ctx context.Context, name string) (d admin.Detail, err error) {
	rows, err := e.readRows(ctx, []string{name})
	if err != nil {
		return d, err
	}
	r := rows[0]
	if d.Record = r.record(name); r.Known {
		d.Token = r.Last
		d.Keys = []admin.Key{{Name: Escape(name), Type: "row", Remaining: -1, Value: r.text()}}
	}
	return d, nil
}

// ForceUnlock ends the lease of h.Owner, and wakes waiters. ForceUnlock returns a
// *driver.GoneError if h.Owner does not hold the name. After a ForceUnlock, the next renewal by
// h.Owner returns an error with the reason.
func (e *Engine) ForceUnlock(ctx context.Context, name string, h admin.Holder, reason string) error {
	rows, err := e.readRows(ctx, []string{name})
	if err != nil {
		return err
	}
	ended := false
	if r := rows[0]; r.Remaining > 0 && r.Owner != "" && r.Owner == h.Owner {
		ended, err = call(ctx, e, nil, func() (bool, error) { return e.table.Force(ctx, name, r.Owner, r.Last, Text(reason)) })
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: force unlock %q: %w", e.info.Name, name, err)
	case !ended:
		return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "that hold is over, or has changed"}
	}
	return nil
}

// ForceReasons returns one text for each hold in `ended`: the reason that ForceUnlock has
// stored, or "" if no reason is stored. A row keeps only the reason of its last ForceUnlock.
func (e *Engine) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	reasons := make([]string, 0, len(ended))
	for chunk := range slices.Chunk(ended, chunkMost) {
		names := make([]string, len(chunk))
		for i, one := range chunk {
			names[i] = one.Name
		}
		rows, err := e.readRows(ctx, names)
		if err != nil {
			return reasons, err
		}
		for i, one := range chunk {
			reason := ""
			if rows[i].Forced == one.Owner {
				reason = rows[i].Reason
			}
			reasons = append(reasons, reason)
		}
	}
	return reasons, nil
}

// AppendLog returns errors.ErrUnsupported, because a table has no event log.
func (e *Engine) AppendLog(context.Context, admin.Client, []admin.Entry) error { return e.noLog() }

// ReadLog returns errors.ErrUnsupported, as AppendLog does.
func (e *Engine) ReadLog(context.Context, admin.LogFilter) ([]admin.Entry, error) {
	return nil, e.noLog()
}

func (e *Engine) noLog() error {
	return fmt.Errorf("%s: no event log: %w", e.info.Name, errors.ErrUnsupported)
}

// shownWaiters is how many waiters a record lists at most.
const shownWaiters = 50

// clientOf returns the ID of the client that an owner belongs to. The ID is the part of the
// owner before its last colon.
func clientOf(owner string) string { return owner[:max(strings.LastIndexByte(owner, ':'), 0)] }

// record returns a Record with this name, made from the row.
func (r *Row) record(name string) admin.Record {
	record := admin.Record{Name: name, Listeners: -1}
	if r.Remaining <= 0 {
		return record
	}
	record.Kind, record.Remaining, record.Waiting = admin.KindMutex, r.Remaining, len(r.Waiters)
	for _, owner := range r.Waiters[:min(shownWaiters, len(r.Waiters))] {
		client := admin.Client{ID: clientOf(owner), Library: "holdfast"}
		record.Waiters = append(record.Waiters, admin.Waiter{Owner: owner, Remaining: admin.RemainingUnknown, Client: client})
	}
	if r.Owner == "" {
		return record
	}
	client := admin.Client{ID: clientOf(r.Owner), Library: "holdfast", Note: r.Note}
	if r.Peer {
		client = admin.Client{Note: r.Note}
	}
	record.Holders, record.Holds = 1, []admin.Hold{{
		Holder:  admin.Holder{Owner: r.Owner, Note: r.Note, Holds: 1, Remaining: r.Remaining},
		Token:   r.First,
		HeldFor: max(r.HeldFor, 0),
		Client:  client,
	}}
	return record
}

// text returns the row as text, for Describe.
func (r *Row) text() string {
	text := fmt.Sprintf("owner → %q\nnote → %q\ntoken → %d\nexpires in → %v", r.Owner, r.Note, r.Last, r.Remaining.Round(time.Millisecond))
	if r.Remaining <= 0 {
		text = fmt.Sprintf("free\nnote → %q\ntoken → %d", r.Note, r.Last)
	}
	if len(r.Waiters) > 0 {
		text += fmt.Sprintf("\nwaiters → %q", r.Waiters)
	}
	if r.Forced != "" {
		text += fmt.Sprintf("\nforced_owner → %q\nforced_reason → %q", r.Forced, r.Reason)
	}
	return text
}
