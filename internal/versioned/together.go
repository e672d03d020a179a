package versioned

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/background"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// lane bounds how many calls of one method of a Store run at once. Calls that come meanwhile wait,
// and go together if the Store is a Batcher: so the more calls there are, the larger is each.
type lane[Q, A any] struct {
	most  int // calls at once
	batch int // parts of a call of `all`; 1 if there is no `all`
	group *background.Group
	name  func(Q) string // two parts of a call have different names
	one   func(context.Context, Q) (A, error)
	all   func(context.Context, []Q) ([]answer[A], error)

	mu      sync.Mutex
	running int
	waiting []*part[Q, A]
}

type answer[A any] struct {
	value A
	err   error
}

// part is one call that waits.
type part[Q, A any] struct {
	ask  Q
	done chan answer[A] // capacity 1
}

// lanes returns the lanes for the methods Get and Put of a store.
func lanes(store Store, limits Limits, group *background.Group) (*lane[string, Item], *lane[Write, Version]) {
	b, batches := store.(Batcher)
	most := cmp.Or(limits.Calls, DefaultCalls)
	if batches {
		most = cmp.Or(limits.Calls, DefaultBatchCalls)
	}
	gets := &lane[string, Item]{
		most: most, batch: 1, group: group, name: func(name string) string { return name },
		one: store.Get,
	}
	puts := &lane[Write, Version]{
		most: most, batch: 1, group: group, name: func(w Write) string { return w.Name },
		one: store.Put,
	}
	if !batches {
		return gets, puts
	}
	gets.batch, puts.batch = cmp.Or(limits.Batch, DefaultBatch), cmp.Or(limits.Batch, DefaultBatch)
	gets.all = func(ctx context.Context, names []string) ([]answer[Item], error) {
		items, err := b.GetAll(ctx, names)
		if err != nil {
			return nil, err
		}
		answers := make([]answer[Item], len(items))
		for i, item := range items {
			answers[i].value = item
		}
		return answers, nil
	}
	puts.all = func(ctx context.Context, writes []Write) ([]answer[Version], error) {
		written, err := b.PutAll(ctx, writes)
		if err != nil {
			return nil, err
		}
		answers := make([]answer[Version], len(written))
		for i, w := range written {
			answers[i] = answer[Version]{w.Version, w.Err}
		}
		return answers, nil
	}
	return gets, puts
}

// do makes one call, alone or together with others.
func (l *lane[Q, A]) do(ctx context.Context, ask Q) (a A, err error) {
	l.mu.Lock()
	if l.running < l.most {
		l.running++
		l.mu.Unlock()
		defer l.next()
		return l.one(ctx, ask)
	}
	p := &part[Q, A]{ask: ask, done: make(chan answer[A], 1)}
	l.waiting = append(l.waiting, p)
	l.mu.Unlock()
	select {
	case got := <-p.done:
		return got.value, got.err
	case <-ctx.Done():
	}
	if l.withdraw(p) {
		return a, unsent.Error(ctx.Err())
	}
	return a, ctx.Err()
}

// withdraw removes a call that waits, and reports whether it still waited.
func (l *lane[Q, A]) withdraw(p *part[Q, A]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, p)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	return i >= 0
}

// next begins the next call, after one has ended.
func (l *lane[Q, A]) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	parts := l.take()
	if len(parts) == 0 {
		l.running--
		return
	}
	l.group.Go(func() {
		defer l.next()
		l.send(parts)
	})
}

// take removes the parts of the next call from those that wait. The mutex is held.
func (l *lane[Q, A]) take() (parts []*part[Q, A]) {
	taken := map[string]bool{}
	left := l.waiting[:0]
	for _, p := range l.waiting {
		if name := l.name(p.ask); len(parts) < l.batch && !taken[name] {
			taken[name] = true
			parts = append(parts, p)
		} else {
			left = append(left, p)
		}
	}
	clear(l.waiting[len(left):])
	l.waiting = left
	return parts
}

// send makes one call with some parts.
func (l *lane[Q, A]) send(parts []*part[Q, A]) {
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	if len(parts) == 1 {
		var a answer[A]
		a.value, a.err = l.one(ctx, parts[0].ask)
		parts[0].done <- a
		return
	}
	asks := make([]Q, len(parts))
	for i, p := range parts {
		asks[i] = p.ask
	}
	answers, err := l.all(ctx, asks)
	for i, p := range parts {
		if err != nil {
			p.done <- answer[A]{err: err}
			continue
		}
		p.done <- answers[i]
	}
}
