package versioned_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// memory is a Store in memory. It has a clock if `aged` is set.
type memory struct {
	aged bool

	mu       sync.Mutex
	last     int
	items    map[string]kept
	watchers map[chan kept]bool
	delay    func() // called before each call that writes, if it is not nil
	lose     bool   // the answer of the next write
	calls    int
	gets     int
	puts     int
	lost     int // writes in conflict
}

type kept struct {
	name    string
	data    []byte
	version versioned.Version
	written time.Time
}

func newMemory(aged bool) *memory {
	return &memory{aged: aged, items: map[string]kept{}, watchers: map[chan kept]bool{}}
}

func (m *memory) item(k kept) versioned.Item {
	age := time.Duration(-1)
	if m.aged {
		age = time.Since(k.written)
	}
	return versioned.Item{Data: k.data, Version: k.version, Age: age}
}

func (m *memory) Get(ctx context.Context, name string) (versioned.Item, error) {
	items, err := m.get(ctx, name)
	if err != nil {
		return versioned.Item{}, err
	}
	return items[0], nil
}

// get is one call that reads documents.
func (m *memory) get(ctx context.Context, names ...string) ([]versioned.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.gets += len(names)
	items := make([]versioned.Item, len(names))
	for i, name := range names {
		items[i] = m.item(m.items[name])
	}
	return items, nil
}

func (m *memory) Put(ctx context.Context, w versioned.Write) (versioned.Version, error) {
	written, err := m.put(ctx, w)
	if err != nil {
		return "", err
	}
	return written[0].Version, written[0].Err
}

// put is one call that writes documents.
func (m *memory) put(ctx context.Context, all ...versioned.Write) ([]versioned.Written, error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
	}
	if m.delay != nil {
		m.delay()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.puts += len(all)
	written := make([]versioned.Written, len(all))
	for i, w := range all {
		if m.items[w.Name].version != w.At {
			m.lost++
			written[i].Err = versioned.ErrVersion
			continue
		}
		written[i].Version = m.set(w.Name, w.Data)
	}
	if m.lose {
		m.lose = false
		return nil, errors.New("connection reset")
	}
	return written, nil
}

// called returns how many calls there were.
func (m *memory) called() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// set writes a document. The mutex is held.
func (m *memory) set(name string, data []byte) versioned.Version {
	m.last++
	k := kept{name, data, versioned.Version(strconv.Itoa(m.last)), time.Now()}
	m.items[name] = k
	for w := range m.watchers {
		w <- k
	}
	return k.version
}

func (m *memory) Page(ctx context.Context, prefix, after string, most int) (page []versioned.Named, err error) {
	if err := ctx.Err(); err != nil {
		return nil, unsent.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, k := range m.items {
		if name > after && strings.HasPrefix(name, prefix) {
			page = append(page, versioned.Named{Name: name, Item: m.item(k)})
		}
	}
	slices.SortFunc(page, func(a, b versioned.Named) int { return strings.Compare(a.Name, b.Name) })
	return page[:min(most, len(page))], nil
}

// watched is a memory that reports changes.
type watched struct{ *memory }

func (m watched) Watch(ctx context.Context, live func(), changed func(string, versioned.Version)) error {
	c := make(chan kept, 100_000)
	m.mu.Lock()
	m.watchers[c] = true
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, c)
	}()
	live()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case k := <-c:
			changed(k.name, k.version)
		}
	}
}

// batched is a memory that reads and writes several documents at once.
type batched struct{ *memory }

func (m batched) GetAll(ctx context.Context, names []string) ([]versioned.Item, error) {
	return m.get(ctx, names...)
}

func (m batched) PutAll(ctx context.Context, all []versioned.Write) ([]versioned.Written, error) {
	return m.put(ctx, all...)
}

func sorted(items map[string]kept) []string { return slices.Sorted(maps.Keys(items)) }
