package ordered

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
)

// AdminStore is a Store that serves operators, too: an Engine over it is an admin.Source.
// What it cannot do returns an error that is errors.ErrUnsupported. Over another Store, all
// methods of admin.Source return that error.
type AdminStore interface {
	Store

	// Names yields the names in the store that begin with prefix, each once, a page at a
	// time, within b. Some may be free. It ends with an error if it did not see all.
	Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error]
	// FullQueue returns the queue of name as Queue does, and behind it the claims that wait
	// to enter it. Entries may lack what Complete fills in.
	FullQueue(ctx context.Context, name string) ([]Entry, error)
	// Complete fills in Order, Note and Session of an entry, with a call if Order is 0. It
	// sets Label.ID of a claim of any session, and "" for another program. It reports
	// whether the entry still exists.
	Complete(ctx context.Context, e *Entry) (bool, error)
	// Remaining returns for how long a session lives unless it is extended. An error that is
	// driver.ErrGone says that it has ended.
	Remaining(ctx context.Context, session int64) (time.Duration, error)
	// Show returns what the store keeps for an entry, except Remaining.
	Show(e Entry) admin.Key

	// Force removes e if it has not changed since it was read, and keeps reason for a
	// while, with the ID of the claim. It reports whether it removed e.
	Force(ctx context.Context, e Entry, id, reason string) (bool, error)
	// Reason returns the reason with which Force removed the entry of a claim. found is
	// false if Force did not remove it, or if the store has forgotten that.
	Reason(ctx context.Context, name, id string) (reason string, found bool, err error)
	// Forced calls hint for each entry that Force removes from now on, until ctx ends or
	// the Store cannot go on.
	Forced(ctx context.Context, hint func(name, id string)) error
}

const (
	shownMost     = 32 // holders and waiters of each name that are shown
	parallelCalls = 8  // calls that one view makes at the same time
)

// adminStore returns the store as an AdminStore.
func (e *Engine) adminStore(ctx context.Context) (AdminStore, error) {
	v, ok := e.store.(AdminStore)
	if !ok {
		return nil, fmt.Errorf("the store does not tell what is locked: %w", errors.ErrUnsupported)
	}
	return v, ctx.Err()
}

// List yields the names that are locked, by this package or another program, in no order.
func (e *Engine) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		v, err := e.adminStore(ctx)
		if err != nil {
			yield(admin.Record{}, err)
			return
		}
		b := budget.New(f)
		for names, err := range v.Names(ctx, f.NamePrefix, b) {
			var l view
			if err == nil {
				l, err = e.view(ctx, v, names)
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

// Get returns the Records of names.
func (e *Engine) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	v, err := e.adminStore(ctx)
	if err != nil {
		return nil, err
	}
	l, err := e.view(ctx, v, names)
	return l.records, err
}

// Describe returns what Get does, and the entries as the store keeps them.
func (e *Engine) Describe(ctx context.Context, name string) (d admin.Detail, err error) {
	v, err := e.adminStore(ctx)
	if err != nil {
		return d, err
	}
	l, err := e.view(ctx, v, []string{name})
	if err != nil {
		return d, err
	}
	d.Record = l.records[0]
	for _, entry := range l.queues[0].entries(shownMost, shownMost) {
		key := v.Show(*entry)
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

// view is what was read for some names.
type view struct {
	records   []admin.Record
	queues    []parted
	remaining map[int64]time.Duration // of sessions
	calls     int
}

// view reads the queues of names, and for how long their sessions live.
func (e *Engine) view(ctx context.Context, v AdminStore, names []string) (l view, err error) {
	l.records, l.queues = make([]admin.Record, len(names)), make([]parted, len(names))
	l.remaining = make(map[int64]time.Duration)
	errs, calls := make([]error, len(names)), make([]int, len(names))
	each(len(names), func(i int) { l.queues[i], calls[i], errs[i] = readQueue(ctx, v, names[i], shownMost) })
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
	failed := l.ask(ctx, v, sessions)
	for i, name := range names {
		failed := cmp.Or(errs[i], l.queues[i].failed(failed))
		l.records[i] = l.queues[i].record(name, l.remaining, failed)
		if l.records[i].Kind == admin.KindUnknown {
			err = cmp.Or(err, ctx.Err(), failed)
		}
	}
	return l, err
}

// ask fills in for how long sessions live, and returns the errors of the sessions for which
// that is not known.
func (l *view) ask(ctx context.Context, v AdminStore, sessions []int64) map[int64]error {
	rests, errs := make([]time.Duration, len(sessions)), make([]error, len(sessions))
	each(len(sessions), func(i int) { rests[i], errs[i] = v.Remaining(ctx, sessions[i]) })
	failed := map[int64]error{}
	for i, session := range sessions {
		switch {
		case errs[i] == nil:
			l.remaining[session] = max(rests[i], 0)
		case isGone(errs[i]): // the store is about to remove its entries
			l.remaining[session] = 0
		case !errors.Is(errs[i], errors.ErrUnsupported):
			failed[session] = errs[i]
		}
	}
	return failed
}

// each calls do with 0 to n-1, parallelCalls at a time.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, parallelCalls) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
