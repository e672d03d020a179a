package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/admin"
)

// List walks over what is locked in the store, by this program or any other, each
// name once and in no order. It is for people who look: what changes while it runs
// may be missing or outdated. The first come at once; the rest takes as long as
// opts and ctx allow.
//
// It ends with an error if it did not see everything: admin.ErrIncomplete when
// opts.Keys was used up, ctx's error when ctx ended, errors.ErrUnsupported on a
// store that does not list. Everything yielded before stands.
func (l *Locker) List(ctx context.Context, opts admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		lister, err := l.lister()
		if err != nil {
			yield(admin.Record{}, fmt.Errorf("list locks: %w", err))
			return
		}
		for record, err := range lister.List(ctx, opts) {
			if err != nil {
				err = fmt.Errorf("list locks: %w", err)
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// Look asks the store what it keeps of names, of whatever kind they are, and
// returns it in the same order; a free name has a Record without a Kind, and one
// that is no lock admin.KindOther. The names are not read at the same instant. It
// is cheap enough to show a page of locks anew each second.
//
// Where only some could be read the error is not nil, the others stand, and those
// that were not read are admin.KindUnknown. It is errors.ErrUnsupported on a
// store that does not tell.
func (l *Locker) Look(ctx context.Context, names ...string) ([]admin.Record, error) {
	lister, err := l.lister()
	for _, name := range names {
		if err == nil {
			err = l.check(name)
		}
	}
	var records []admin.Record
	if err == nil {
		records, err = lister.Get(ctx, names...)
	}
	if err != nil {
		return records, fmt.Errorf("look at locks: %w", err)
	}
	return records, nil
}

// Detail asks the store for all that it keeps of name, down to its keys. It is
// errors.ErrUnsupported on a store that does not tell.
func (l *Locker) Detail(ctx context.Context, name string) (admin.Detail, error) {
	lister, err := l.lister()
	if err == nil {
		err = l.check(name)
	}
	var detail admin.Detail
	if err == nil {
		detail, err = lister.Describe(ctx, name)
	}
	if err != nil {
		return admin.Detail{}, fmt.Errorf("look at %q: %w", name, err)
	}
	return detail, nil
}

func (l *Locker) lister() (admin.Source, error) {
	lister, ok := l.backend.(admin.Source)
	if !ok {
		return nil, fmt.Errorf("%s does not tell what is locked: %w", l.info.Name, errors.ErrUnsupported)
	}
	return lister, nil
}
