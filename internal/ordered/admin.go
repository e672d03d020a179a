package ordered

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	shownMost     = 32 // the most holders, and the most waiters, that a Record lists
	parallelCalls = 8  // how many calls Engine.view makes at the same time, at most
)

// List yields the Record of each name that has holders or waiters. These may be claims of this
// package or entries of other programs. The Records come in no particular order.
func (e *Engine) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		b := budget.New(f)
		for names, err := range e.store.Names(ctx, f.NamePrefix, b) {
			var l view
			if err == nil {
				names, more := skip(names, f.Skip, yield)
				if !more {
					return
				}
				l, err = e.view(ctx, names)
			}
			for _, r := range l.records {
				if r.Holders+r.Waiting > 0 && !yield(r, nil) {
					return
				}
			}
			b.Spent(l.calls)
			if err != nil {
				yield(admin.Record{}, err)
				return
			}
		}
	}
}

// skip returns the names whose state List must read. It yields a Record without a state for
// each other name. It returns false if the caller of List wants no more Records.
func skip(names []string, skips func(string) bool, yield func(admin.Record, error) bool) (read []string, more bool) {
	if skips == nil {
		return names, true
	}
	for _, name := range names {
		switch {
		case !skips(name):
			read = append(read, name)
		case !yield(admin.Record{Name: name, Kind: admin.KindUnknown, Listeners: -1}, nil):
			return nil, false
		}
	}
	return read, true
}

// Get returns the Record of each given name, in the order of the names.
func (e *Engine) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	l, err := e.view(ctx, names)
	return l.records, err
}

// Describe returns the Record that Get returns, and the entries as the store keeps them.
func (e *Engine) Describe(ctx context.Context, name string) (d admin.Detail, err error) {
	l, err := e.view(ctx, []string{name})
	if err != nil {
		return d, err
	}
	d.Record = l.records[0]
	for _, entry := range l.queues[0].entries(shownMost, shownMost) {
		key := e.store.Show(*entry)
		key.Remaining = l.remaining[entry.Session]
		d.Keys = append(d.Keys, key)
	}
	return d, nil
}

// AppendLog is not supported: there is no event log.
func (e *Engine) AppendLog(context.Context, admin.Client, []admin.Entry) error { return errNoLog() }

// ReadLog is not supported, like AppendLog.
func (e *Engine) ReadLog(context.Context, admin.LogFilter) ([]admin.Entry, error) {
	return nil, errNoLog()
}

func errNoLog() error { return fmt.Errorf("the store has no event log: %w", errors.ErrUnsupported) }

// view is what Engine.view has read for some names.
type view struct {
	records   []admin.Record
	queues    []parted
	remaining map[int64]time.Duration // the remaining time of each session
	calls     int
}

// view reads the queue of each name, and the remaining time of each session that has an entry
// in l.records. If the Kind of a Record is KindUnknown, view returns the error of the read that
// failed. If several Records have this Kind, view returns the error for the first of them. But
// if ctx has ended, the error is that of ctx.
func (e *Engine) view(ctx context.Context, names []string) (l view, err error) {
	l.records, l.queues = make([]admin.Record, len(names)), make([]parted, len(names))
	l.remaining = make(map[int64]time.Duration)
	errs, calls := make([]error, len(names)), make([]int, len(names))
	background.Each(len(names), parallelCalls, func(i int) { l.queues[i], calls[i], errs[i] = readQueue(ctx, e.store, names[i], shownMost) })
	for i := range l.queues {
		for _, entry := range l.queues[i].entries(shownMost, shownMost) {
			l.remaining[entry.Session] = admin.RemainingUnknown
		}
	}
	sessions := slices.Collect(maps.Keys(l.remaining))
	l.calls = len(sessions)
	for _, n := range calls {
		l.calls += n
	}
	failed := l.ask(ctx, e.store, sessions)
	for i, name := range names {
		failed := cmp.Or(errs[i], l.queues[i].failed(failed))
		l.records[i] = l.queues[i].record(name, l.remaining, failed)
		if l.records[i].Kind == admin.KindUnknown {
			err = cmp.Or(err, ctx.Err(), failed)
		}
	}
	return l, err
}

// ask reads the remaining times of sessions into l.remaining. The map that it returns has an
// error for each session whose remaining time could not be read. If the store does not support
// such reads, the map stays empty.
func (l *view) ask(ctx context.Context, store Store, sessions []int64) map[int64]error {
	rests, errs := make([]time.Duration, len(sessions)), make([]error, len(sessions))
	background.Each(len(sessions), parallelCalls, func(i int) { rests[i], errs[i] = store.Remaining(ctx, sessions[i]) })
	failed := map[int64]error{}
	for i, session := range sessions {
		switch {
		case errs[i] == nil:
			l.remaining[session] = max(rests[i], 0)
		case retry.Gone(errs[i]): // the store will remove the entries of the session soon
			l.remaining[session] = 0
		case !errors.Is(errs[i], errors.ErrUnsupported):
			failed[session] = errs[i]
		}
	}
	return failed
}
