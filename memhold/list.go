package memhold

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/admin"
)

// List yields locks, semaphores and latches in the order of their names. It reads all names at
// its beginning, and the state of each name when it yields the name. After f.Keys names it ends
// with admin.ErrIncomplete. f.Pace has no effect.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		names := b.names(f.NamePrefix)
		for i, name := range names {
			if f.Keys > 0 && i == f.Keys {
				yield(admin.Record{}, admin.ErrIncomplete)
				return
			}
			records, err := b.Get(ctx, name)
			if err != nil {
				yield(admin.Record{}, err)
				return
			}
			if records[0].Kind != "" && !yield(records[0], nil) {
				return
			}
		}
		if err := ended(ctx); err != nil {
			yield(admin.Record{}, err)
		}
	}
}

// names returns the names in use that begin with the prefix, sorted byte by byte.
func (b *Backend) names(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	var names []string
	for name := range b.resources {
		if strings.HasPrefix(name, prefix) && b.live(name, now) != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Get returns the Records of the names, all at the same instant. Record.Listeners is -1.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.begin()
	records := make([]admin.Record, len(names))
	for i, name := range names {
		if e := b.live(name, now); e != nil {
			records[i] = e.Record(name, now)
		} else {
			records[i] = admin.Record{Name: name, Listeners: -1}
		}
	}
	return records, nil
}

// Describe returns the Record of the name, as Get does. There are no keys. Detail.Token is 0,
// because one counter serves all names; the holds have tokens.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	records, err := b.Get(ctx, name)
	if err != nil {
		return admin.Detail{}, err
	}
	return admin.Detail{Record: records[0]}, nil
}
