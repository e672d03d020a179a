package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
)

// Console shows the locks of one store, and ends holds. It may be used by any
// number of goroutines, and has nothing to close.
type Console struct {
	source Source // nil: the store is none
	info   driver.Info
}

// New returns the Console of b. Where b is no Source, each call returns
// errors.ErrUnsupported. New panics if b is nil.
func New(b driver.Backend) *Console {
	if b == nil {
		panic("admin: New called with a nil backend")
	}
	source, _ := b.(Source)
	return &Console{source: source, info: b.Info()}
}

// From returns the Console of s, which may stand for a backend that is wrapped in
// something else. It panics if s is nil.
func From(s Source) *Console {
	if s == nil {
		panic("admin: From called with a nil Source")
	}
	return &Console{source: s, info: s.Info()}
}

// List yields what is locked in the store, by whatever program, each name once and
// in no order. What changes while it runs may be missing or outdated. The first
// records come at once; the rest takes as long as f and ctx allow.
//
// It ends with an error if it did not see everything: ErrIncomplete when f.Keys was
// used up, ctx's error when ctx ended. Everything yielded before is valid.
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
			if !yield(record, err) {
				return
			}
		}
	}
}

// Get returns what the store keeps of names, of whatever kind they are, in the same
// order; a free name has a Record without a Kind, and one that is no lock has
// KindOther. The names are not read at the same instant. It is cheap enough to show
// a page of locks again each second.
//
// Where only some could be read the error is not nil, the others are valid, and
// those that were not read have KindUnknown.
func (c *Console) Get(ctx context.Context, names ...string) ([]Record, error) {
	err := c.check(names...)
	var records []Record
	if err == nil {
		records, err = c.source.Get(ctx, names...)
	}
	if err != nil {
		return records, fmt.Errorf("look at locks: %w", err)
	}
	return records, nil
}

// Describe returns all that the store keeps of name, down to its keys.
func (c *Console) Describe(ctx context.Context, name string) (Detail, error) {
	err := c.check(name)
	var detail Detail
	if err == nil {
		detail, err = c.source.Describe(ctx, name)
	}
	if err != nil {
		return Detail{}, fmt.Errorf("look at %q: %w", name, err)
	}
	return detail, nil
}

// ForceUnlock ends exactly the hold h of name, which Get returned, although its
// holder has not released it, and wakes waiters. It returns an error that is
// driver.ErrGone, and changes nothing, if h is over or has changed. The holder is
// notified of the reason.
//
// A Redisson client that released the lock and took it again in the same thread
// cannot be distinguished from one that never released it.
//
// The holder is not stopped: it learns of it at its next renewal at the latest.
// Only fencing tokens protect the data until then.
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

// ForceReasons returns for each hold of ended the reason with which ForceUnlock, of
// any program, ended it: "" for one that ended otherwise, or longer ago than its
// lease and some seconds. It is for those who poll Get, and see a hold vanish. On
// error, some answers may be missing.
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

// Log yields the entries of the event log, which programs write that use package
// audit, in the order in which they were written: those after the entry whose ID is
// f.After, or where that is empty those of the time f.Past. It ends with the last
// entry there is, or after f.Most of them, or with an error. It has holes where much
// happened at a time, and where a client died or could not reach the store.
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

// check returns what is wrong before anything is sent.
func (c *Console) check(names ...string) error {
	if c.source == nil {
		return fmt.Errorf("%s does not tell what is locked: %w", c.info.Name, errors.ErrUnsupported)
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
