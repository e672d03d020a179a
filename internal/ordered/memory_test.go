package ordered_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// memory is a Store in memory. Several Engines may share one, each for a process. Hooks can
// make its calls fail.
type memory struct {
	ttl time.Duration

	mu       sync.Mutex
	revision uint64
	sessions map[int64]*time.Timer
	entries  []entry
	changed  chan struct{} // closed by every change
	calls    map[string]int
	// sure makes Watch report that an entry was certainly removed.
	sure bool
	// unnamed leaves the holder out of the answer to a first Try, neverNamed out of all
	// answers.
	unnamed, neverNamed bool
	viewing
	// before is called before a call is executed, and after when it was: an error of theirs
	// is the result of the call. nil means no hook.
	before, after func(ctx context.Context, call string) error
}

type entry struct {
	ordered.Entry
	session int64
}

func newMemory(ttl time.Duration) *memory {
	return &memory{ttl: ttl, sessions: make(map[int64]*time.Timer), changed: make(chan struct{}), calls: make(map[string]int), viewing: newViewing()}
}

// spoil sets the hooks.
func (m *memory) spoil(before, after func(ctx context.Context, call string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.before, m.after = before, after
}

// count returns how often the calls were made.
func (m *memory) count(calls ...string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, call := range calls {
		n += m.calls[call]
	}
	return n
}

// call executes do, unless a hook returns an error or the context has ended.
func (m *memory) call(ctx context.Context, name string, do func() error) error {
	m.mu.Lock()
	m.calls[name]++
	before, after := m.before, m.after
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if before != nil {
		if err := before(ctx, name); err != nil {
			return err
		}
	}
	m.mu.Lock()
	err := do()
	m.mu.Unlock()
	if after != nil {
		if err := after(ctx, name); err != nil {
			return err
		}
	}
	return err
}

func (m *memory) Open(ctx context.Context) (id int64, ttl time.Duration, err error) {
	err = m.call(ctx, "open", func() error {
		id = m.begin(m.ttl)
		return nil
	})
	return id, m.ttl, err
}

// begin makes a session. The mutex is held.
func (m *memory) begin(ttl time.Duration) int64 {
	m.revision++
	id := int64(m.revision)
	m.ends[id] = time.Now().Add(ttl)
	m.sessions[id] = time.AfterFunc(ttl, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.end(id)
	})
	return id
}

func (m *memory) Keep(ctx context.Context, session int64, name string, label ordered.Label, note string, rest time.Duration) (there bool, err error) {
	err = m.call(ctx, "keep", func() error {
		for i := range m.entries {
			if e := &m.entries[i]; e.session == session && e.Name == name && e.Label == label {
				e.session, e.Note, e.Label.ID, there = m.begin(rest), note, ordered.ClaimOf(note), true
				e.Session, e.Key = e.session, e.Key+" kept"
				m.change()
			}
		}
		return nil
	})
	return there, err
}

// end ends a session. The mutex is held.
func (m *memory) end(id int64) {
	delete(m.sessions, id)
	m.remove(func(e entry) bool { return e.session == id })
}

// revoke ends all sessions, as an administrator can.
func (m *memory) revoke() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, timer := range m.sessions {
		timer.Stop()
		m.end(id)
	}
}

func (m *memory) Extend(ctx context.Context, session int64) (time.Duration, error) {
	return m.ttl, m.call(ctx, "extend", func() error {
		if timer := m.sessions[session]; timer == nil || !timer.Reset(m.ttl) {
			return driver.ErrGone
		}
		m.ends[session] = time.Now().Add(m.ttl)
		return nil
	})
}

func (m *memory) Has(ctx context.Context, session int64, entries []ordered.Entry) (there []bool, err error) {
	err = m.call(ctx, "has", func() error {
		for _, e := range entries {
			there = append(there, slices.ContainsFunc(m.entries, func(x entry) bool {
				return x.session == session && x.Name == e.Name && x.Label.ID == e.Label.ID && x.Order == e.Order
			}))
		}
		return nil
	})
	return there, err
}

func (m *memory) Own(ctx context.Context, session int64) (own []ordered.Entry, err error) {
	err = m.call(ctx, "own", func() error {
		for _, e := range m.entries {
			if e.session == session {
				own = append(own, e.Entry)
			}
		}
		return nil
	})
	return own, err
}

func (m *memory) Enqueue(ctx context.Context, session int64, name string, label ordered.Label, note string, alone bool) (queue []ordered.Entry, err error) {
	err = m.call(ctx, "enqueue", func() error {
		if m.sessions[session] == nil {
			return driver.ErrGone
		}
		queue = m.queue(name)
		known := slices.ContainsFunc(queue, func(e ordered.Entry) bool { return e.Label.ID == label.ID })
		if !known && (!alone || len(queue) == 0) {
			m.add(name, label, note, session)
			queue = m.queue(name)
		}
		if m.unnamed && !alone {
			queue = withoutNote(queue, label)
		}
		return nil
	})
	return queue, err
}

// withoutNote leaves the holder out of a queue, unless that is m.
func withoutNote(queue []ordered.Entry, m ordered.Label) []ordered.Entry {
	if len(queue) > 0 && queue[0].Label.ID != m.ID {
		queue[0].Order, queue[0].Note = 0, ""
	}
	return queue
}

// add makes an entry. The mutex is held.
func (m *memory) add(name string, label ordered.Label, note string, session int64) {
	m.revision++
	key := name + "/" + label.ID
	m.entries = append(m.entries, entry{ordered.Entry{Name: name, Key: key, Order: m.revision, Label: label, Note: note, Session: session}, session})
	m.change()
}

// change wakes all watches. The mutex is held.
func (m *memory) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *memory) queue(name string) (queue []ordered.Entry) {
	for _, e := range m.entries {
		if e.Name == name {
			queue = append(queue, e.Entry)
		}
	}
	return queue
}

func (m *memory) Queue(ctx context.Context, name string, last uint64, _ bool) (queue []ordered.Entry, err error) {
	err = m.call(ctx, "queue", func() error {
		queue = slices.DeleteFunc(m.queue(name), func(e ordered.Entry) bool { return last > 0 && e.Order > last })
		if m.neverNamed {
			queue = withoutNote(queue, ordered.Label{})
		}
		return nil
	})
	return queue, err
}

// remove removes entries, and reports whether there were any. The mutex is held.
func (m *memory) remove(which func(entry) bool) bool {
	n := len(m.entries)
	m.entries = slices.DeleteFunc(slices.Clone(m.entries), which)
	if len(m.entries) == n {
		return false
	}
	m.change()
	return true
}

func (m *memory) Remove(ctx context.Context, session int64, name string, label ordered.Label) (there bool, err error) {
	err = m.call(ctx, "remove", func() error {
		there = m.remove(func(e entry) bool { return e.session == session && e.Name == name && e.Label == label })
		return nil
	})
	return there, err
}

func (m *memory) Share(ctx context.Context, session int64, name string, label ordered.Label) (there bool, err error) {
	err = m.call(ctx, "share", func() error {
		for i, e := range m.entries {
			if e.session == session && e.Name == name && e.Label == label {
				m.entries[i].Shared, there = true, true
				m.entries[i].Key += " shared"
				m.change()
			}
		}
		return nil
	})
	return there, err
}

func (m *memory) Watch(ctx context.Context, name string, entries []ordered.Entry, before *ordered.Entry, early func()) (gone bool, err error) {
	for {
		var changed <-chan struct{}
		left, kept, passed := 0, false, m.sure && before != nil
		err := m.call(ctx, "watch", func() error {
			changed = m.changed
			for _, e := range m.queue(name) {
				if slices.ContainsFunc(entries, func(of ordered.Entry) bool { return of.Key == e.Key }) {
					left++
				}
				kept = kept || len(entries) == 1 && e.Order == entries[0].Order // changed, and not removed
				passed = passed && e.Key != before.Key
			}
			return nil
		})
		if err != nil || left < len(entries) {
			return m.sure && err == nil && len(entries) == 1 && !kept, err
		}
		if passed {
			before = nil
			early()
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// keys returns what is in the queue of name, for messages.
func (m *memory) keys(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for _, e := range m.queue(name) {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

// backend is an Engine over a memory: a process.
type backend struct {
	*ordered.Engine
	store *memory
}

func newBackend(m *memory) *backend { return &backend{ordered.New(m), m} }

func (b *backend) Info() driver.Info {
	return driver.Info{
		Name:       "ordered memory",
		Caps:       driver.Caps{Shared: true, Permits: true, Fair: true, Fencing: true, Wakes: true, ExpiresAlone: true, AtLeast: true},
		SessionTTL: b.store.ttl, MaxTTL: b.store.ttl, Recheck: b.store.ttl, MaxTokens: ordered.MaxTokens,
	}
}
