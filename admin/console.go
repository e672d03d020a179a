package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
)

// Console shows the locks of one store, and ends holds. Any number of goroutines may use
// it. It needs no Close.
type Console struct {
	source Source // nil if the store is not a Source
	info   driver.Info
}

// New returns the Console of b. If b is not a Source, each call returns
// errors.ErrUnsupported. New panics if b is nil.
func New(b driver.Backend) *Console {
	if b == nil {
		panic("admin: New called with a nil backend")
	}
	source, _ := b.(Source)
	return &Console{source: source, info: b.Info()}
}

// From returns the Console of s. Use it if the Source is not the Backend itself. It
// panics if s is nil.
func From(s Source) *Console {
	if s == nil {
		panic("admin: From called with a nil Source")
	}
	return &Console{source: s, info: s.Info()}
}

// Info describes the store, as in driver.Backend.
func (c *Console) Info() driver.Info { return c.info }

// List yields the locks of the store, of every program, each name once and in no order. A
// lock that changes meanwhile may be missing or outdated. The first records come at once.
// The rest takes as long as f and ctx allow.
//
// If List did not read everything, it ends with an error: ErrIncomplete if it has read f.Keys
// keys, or ctx's error if ctx has ended. All records before the error are valid.
func (c *Console) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := c.check(); err != nil {
			yield(Record{}, fmt.Errorf("list locks: %w", err))
			return
		}
		for record, err := range c.source.List(ctx, f) {
			if err != nil {
				err = fmt.Errorf("list locks: %w", err)
			}
			record.keep()
			if !yield(record, err) {
				return
			}
		}
	}
}

// Get returns one Record for each of the names, in the same order, for every kind of lock. The
// Record of a free name has no Kind. If a name is in use for something that is not a lock, its
// Record has KindOther. The names are not read at the same instant. Get is cheap enough to
// refresh a page of locks each second.
//
// If some names could not be read, the error is not nil, these names have KindUnknown,
// and the other Records are valid.
func (c *Console) Get(ctx context.Context, names ...string) ([]Record, error) {
	err := c.check(names...)
	var records []Record
	if err == nil {
		records, err = c.source.Get(ctx, names...)
	}
	for i := range records {
		records[i].keep()
	}
	if err != nil {
		return records, fmt.Errorf("look at locks: %w", err)
	}
	return records, nil
}

// Describe returns everything that the store has of one name, with the keys of that name.
func (c *Console) Describe(ctx context.Context, name string) (Detail, error) {
	err := c.check(name)
	var detail Detail
	if err == nil {
		detail, err = c.source.Describe(ctx, name)
	}
	if err != nil {
		return Detail{}, fmt.Errorf("look at %q: %w", name, err)
	}
	detail.keep()
	return detail, nil
}

// keep sets Holders and HeldFor to 0 in the Record of a name that stays taken after its
// release, because nobody holds that name.
func (r *Record) keep() {
	if len(r.Holds) == 1 && r.Holds[0].Kept() {
		r.Holders, r.Holds[0].HeldFor = 0, 0
	}
}

// ForceUnlock ends exactly the hold h of the lock `name`, as Get returned it, although its
// holder has not released it. It notifies the waiters. It also notifies the holder, with the
// reason. If h has ended or changed, ForceUnlock changes nothing and returns an error that is
// driver.ErrGone.
//
// If a Redisson client released h and took the lock again in the same thread, the new hold
// looks the same as h, so ForceUnlock ends the new hold.
//
// ForceUnlock does not stop the holder. The holder is notified at its next renewal at the
// latest. Until then only fencing tokens protect the data.
func (c *Console) ForceUnlock(ctx context.Context, name string, h Holder, reason string) error {
	err := c.check(name)
	if err == nil {
		err = c.source.ForceUnlock(ctx, name, h, reason)
	}
	if err != nil {
		return fmt.Errorf("force unlock %q: %w", name, err)
	}
	return nil
}

// ForceReasons returns one reason for each hold in the parameter `ended`, in the same order.
// The reason is the text that this or another program gave to ForceUnlock. It is "" for a hold
// that ended in another way, or that ended longer ago than its lease and some seconds. Use
// ForceReasons if you poll Get and find that a hold has ended. If it returns an error, some
// reasons may be missing.
func (c *Console) ForceReasons(ctx context.Context, ended []Ended) ([]string, error) {
	names := make([]string, len(ended))
	for i, e := range ended {
		names[i] = e.Name
	}
	reasons := make([]string, len(ended))
	err := c.check(names...)
	if err == nil {
		var known []string
		known, err = c.source.ForceReasons(ctx, ended)
		copy(reasons, known)
	}
	if err != nil {
		err = fmt.Errorf("look up how holds ended: %w", err)
	}
	return reasons, err
}

// Log yields entries of the event log, in the order in which they were written. Programs write
// them with package audit. The parameter f selects the entries. Log ends with the last entry,
// after f.Limit entries, or with an error. The event log is not complete: a client writes a
// limited number of entries, and some are missing if it crashes or cannot reach the store.
func (c *Console) Log(ctx context.Context, f LogFilter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := c.readLog(ctx, f, yield); err != nil {
			yield(Entry{}, fmt.Errorf("event log: %w", err))
		}
	}
}

// logPage is how many entries are read with one call.
const logPage = 1000

func (c *Console) readLog(ctx context.Context, f LogFilter, yield func(Entry, error) bool) error {
	if err := c.check(); err != nil {
		return err
	}
	for left := f.Limit; f.Limit <= 0 || left > 0; {
		page := f
		if page.Limit = logPage; f.Limit > 0 {
			page.Limit = min(left, logPage)
		}
		entries, err := c.source.ReadLog(ctx, page)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return nil
			}
			f.After = e.ID
		}
		if left -= len(entries); len(entries) < page.Limit {
			return nil
		}
	}
	return nil
}

// check returns an error if the store is not a Source, or if a name is empty or too long. It
// does no I/O.
func (c *Console) check(names ...string) error {
	if c.source == nil {
		return fmt.Errorf("%s cannot list or show locks: %w", c.info.Name, errors.ErrUnsupported)
	}
	for _, name := range names {
		switch {
		case name == "":
			return errors.New("the name of the lock is empty")
		case c.info.MaxName > 0 && len(name) > c.info.MaxName:
			return fmt.Errorf("the name of the lock has %d bytes: %s takes at most %d", len(name), c.info.Name, c.info.MaxName)
		}
	}
	return nil
}
