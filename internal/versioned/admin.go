package versioned

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/document"
)

// pageMost is how many documents List reads with one call at most.
const pageMost = 500

// List yields the names that are in use, in the order of their bytes. It reads the documents in
// pages. A page also has those of free names. So f.Keys limits how many documents List reads, not how
// many names it yields. f.Counters has no effect.
func (e *Engine) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		b, after := budget.New(f), ""
		for {
			most, err := b.Page(ctx, pageMost)
			if err != nil {
				yield(admin.Record{}, err)
				return
			}
			began := e.moment()
			page, err := e.store.Page(ctx, f.NamePrefix, after, most)
			if err != nil {
				yield(admin.Record{}, fmt.Errorf("%s: list locks: %w", e.info.Name, err))
				return
			}
			for _, one := range page {
				after = one.Name
				if r := e.recordOf(one, began); r.Kind != "" && r.Kind != admin.KindOther && !yield(r, nil) {
					return
				}
			}
			if len(page) < most {
				return
			}
		}
	}
}

// recordOf returns the Record of a document that a page has, which was asked for at the moment `began`.
func (e *Engine) recordOf(one Named, began moment) admin.Record {
	n := e.known(one.Name)
	if n == nil {
		n = &entry{name: one.Name, doc: &document.Document{}}
	} else {
		defer e.leave(n)
	}
	if err := e.learn(n, one.Item, began, time.Now()); err != nil {
		return admin.Record{Name: one.Name, Kind: admin.KindOther}
	}
	return n.show(time.Now())
}

// show returns the Record of the document that is known.
func (n *entry) show(now time.Time) admin.Record {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now(now).Record(n.name, now)
}

// Get returns one Record for each name, as admin.Source says.
func (e *Engine) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	records, errs := make([]admin.Record, len(names)), make([]error, len(names))
	background.Each(len(names), parallel, func(i int) {
		var r admin.Record
		err := e.look(ctx, "look at", names[i], func(d *document.Document, now time.Time) error {
			r = d.Record(names[i], now)
			return nil
		})
		switch {
		case err == nil:
			records[i] = r
		case errors.Is(err, driver.ErrMismatch):
			records[i] = admin.Record{Name: names[i], Kind: admin.KindOther, Listeners: -1}
		default:
			records[i], errs[i] = admin.Record{Name: names[i], Kind: admin.KindUnknown, Listeners: -1}, err
		}
	})
	return records, errors.Join(errs...)
}

// Describe returns the Record that Get returns, with the last token and the document.
func (e *Engine) Describe(ctx context.Context, name string) (admin.Detail, error) {
	records, err := e.Get(ctx, name)
	if err != nil {
		return admin.Detail{}, err
	}
	detail := admin.Detail{Record: records[0]}
	n := e.enter(name)
	defer e.leave(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	detail.Token = n.doc.Last
	if n.version != "" {
		detail.Keys = []admin.Key{{Name: name, Type: "document", Remaining: -1, Value: string(n.data)}}
	}
	return detail, nil
}

// ForceUnlock ends the grant of h.Owner, as admin.Source says.
func (e *Engine) ForceUnlock(ctx context.Context, name string, h admin.Holder, reason string) error {
	return e.set(ctx, "force unlock", name, func(d *document.Document, now time.Time) error {
		if _, ok := d.Force(h.Owner, reason, now); !ok {
			return &driver.GoneError{Reason: driver.ReasonDeleted, Detail: "that hold is over, or has changed"}
		}
		return nil
	})
}

// ForceReasons returns the reasons that were given to ForceUnlock. A reason is "" as soon as the lease
// would have ended, but not within document.Remember.
func (e *Engine) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	reasons, errs := make([]string, len(ended)), make([]error, len(ended))
	background.Each(len(ended), parallel, func(i int) {
		var why string
		errs[i] = e.look(ctx, "look at", ended[i].Name, func(d *document.Document, _ time.Time) error {
			why = d.ForcedWhy(ended[i].Owner)
			return nil
		})
		if errs[i] == nil {
			reasons[i] = why
		}
	})
	return reasons, errors.Join(errs...)
}

// AppendLog returns errors.ErrUnsupported, because there is no event log.
func (e *Engine) AppendLog(context.Context, admin.Client, []admin.Entry) error { return e.noLog() }

// ReadLog returns errors.ErrUnsupported, as AppendLog does.
func (e *Engine) ReadLog(context.Context, admin.LogFilter) ([]admin.Entry, error) {
	return nil, e.noLog()
}

func (e *Engine) noLog() error {
	return fmt.Errorf("%s: no event log: %w", e.info.Name, errors.ErrUnsupported)
}
