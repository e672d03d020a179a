package ordered_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

// viewing is what a memory has for operators.
type viewing struct {
	ends    map[int64]time.Time // of sessions
	reasons map[[2]string]string
	hints   map[*func(name, id string)]bool
	silent  bool // it does not say for how long a session lives
	bare    bool // it asks for what is in an entry one by one
}

func newViewing() viewing {
	return viewing{ends: map[int64]time.Time{}, reasons: map[[2]string]string{}, hints: map[*func(name, id string)]bool{}}
}

func (m *memory) Names(ctx context.Context, prefix string, b *budget.Budget) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		names := map[string]bool{}
		err := m.call(ctx, "names", func() error {
			for _, e := range m.entries {
				names[e.Name] = names[e.Name] || strings.HasPrefix(e.Name, prefix)
			}
			return nil
		})
		maps.DeleteFunc(names, func(_ string, found bool) bool { return !found })
		for rest := slices.Sorted(maps.Keys(names)); err == nil && len(rest) > 0; {
			var n int
			if n, err = b.Page(ctx, min(len(rest), 2)); err == nil && !yield(rest[:n], nil) {
				return
			}
			rest = rest[n:]
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (m *memory) FullQueue(ctx context.Context, name string) ([]ordered.Entry, error) {
	queue, err := m.Queue(ctx, name, 0, true)
	for i, e := range queue {
		if m.bare {
			label := e.Label
			label.ID = e.Key
			queue[i] = ordered.Entry{Name: e.Name, Key: e.Key, Label: label, Shared: e.Shared}
		}
	}
	return queue, err
}

func (m *memory) Complete(ctx context.Context, e *ordered.Entry) (there bool, err error) {
	if !m.bare {
		return true, nil
	}
	return there, m.call(ctx, "complete", func() error {
		for _, known := range m.queue(e.Name) {
			if known.Key == e.Key {
				*e, there = known, true
			}
		}
		return nil
	})
}

func (m *memory) Remaining(ctx context.Context, session int64) (rest time.Duration, err error) {
	return rest, m.call(ctx, "rest", func() error {
		switch {
		case m.silent:
			return errors.ErrUnsupported
		case m.sessions[session] == nil:
			return driver.ErrGone
		}
		rest = time.Until(m.ends[session])
		return nil
	})
}

func (m *memory) Show(e ordered.Entry) admin.Key {
	return admin.Key{Name: e.Key, Type: "entry", Value: e.Note}
}

func (m *memory) Force(ctx context.Context, e ordered.Entry, id, reason string) (there bool, err error) {
	return there, m.call(ctx, "force", func() error {
		there = m.remove(func(other entry) bool { return other.Entry == e })
		if there {
			m.reasons[[2]string{e.Name, id}] = reason
			for hint := range m.hints {
				go (*hint)(e.Name, id)
			}
		}
		return nil
	})
}

func (m *memory) Reason(ctx context.Context, name, id string) (reason string, found bool, err error) {
	return reason, found, m.call(ctx, "reason", func() error {
		reason, found = m.reasons[[2]string{name, id}]
		return nil
	})
}

func (m *memory) Forced(ctx context.Context, hint func(name, id string)) error {
	if err := m.call(ctx, "forced", func() error { m.hints[&hint] = true; return nil }); err != nil {
		return err
	}
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hints, &hint)
	return ctx.Err()
}

// TestAdmin runs the specification, also over a store that does not know the remaining time
// of a session, and over one that needs a call for each entry.
func TestAdmin(t *testing.T) {
	for name, v := range map[string]viewing{"all": {}, "no remaining": {silent: true}, "one by one": {bare: true}} {
		t.Run(name, func(t *testing.T) {
			admintest.Suite{Synctest: true, NoRemaining: v.silent, Open: func(*testing.T) admintest.Store {
				m := newMemory(ttl)
				m.silent, m.bare = v.silent, v.bare
				return newBackend(m)
			}}.Run(t)
		})
	}
}

// peer puts an entry of another program into the queue of name, with a session that lives
// for ttl.
func (m *memory) peer(t *testing.T, name, note string) (session int64) {
	session, _, err := m.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(name, ordered.Label{Kind: ordered.Mutex}, note, session)
	return session
}

func (p *process) record(name string) admin.Record {
	p.t.Helper()
	records, err := p.Get(p.t.Context(), name)
	if err != nil || len(records) != 1 {
		p.t.Fatalf("Get: got %+v and error %v", records, err)
	}
	return records[0]
}

// Holders and waiters are shown, those of other programs, too, with the remaining time of
// their sessions.
func TestGetShowsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		session := m.peer(t, "job", "a peer")
		queued := ps[0].claim()
		ps[0].granted(queued, false)
		time.Sleep(time.Second)
		last := ps[1].claim()
		ps[1].granted(last, false)
		peer := admin.Hold{
			Holder: admin.Holder{Owner: fmt.Sprintf("%x:%d", session, session+1), Note: "a peer", Holds: 1, Remaining: ttl - time.Second},
			Client: admin.Client{ID: fmt.Sprintf("%x", session)},
		}
		r := ps[0].record("job")
		if r.Kind != admin.KindMutex || r.Holders != 1 || len(r.Holds) != 1 || r.Holds[0] != peer {
			t.Errorf("got %+v, want the hold %+v", r, peer)
		}
		want := []admin.Waiter{
			{Owner: queued.Owner, Note: queued.Note, Remaining: ttl - time.Second, Client: admin.Client{ID: "process0", Library: "holdfast", Note: "process0"}},
			{Owner: last.Owner, Note: last.Note, Remaining: ttl, Client: admin.Client{ID: "process1", Library: "holdfast", Note: "process1"}},
		}
		if r.Waiting != 2 || !slices.Equal(r.Waiters, want) || r.Remaining != ttl {
			t.Errorf("got %+v, want the waiters %+v", r, want)
		}
		d, err := ps[0].Describe(t.Context(), "job")
		if err != nil || len(d.Keys) != 3 || d.Keys[0].Remaining != ttl-time.Second || d.Keys[2].Remaining != ttl || d.Waiting != 2 {
			t.Errorf("Describe: got %+v and error %v", d, err)
		}
		if err := ps[0].ForceUnlock(t.Context(), "job", admin.Holder{Owner: queued.Owner}, "none"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("ForceUnlock of a waiter: got error %v, want ErrGone", err)
		}
		if err := ps[0].ForceUnlock(t.Context(), "job", peer.Holder, "why not"); err != nil {
			t.Errorf("ForceUnlock of a peer: got error %v", err)
		}
		out := ps[0].granted(queued, true)
		if h := ps[1].record("job").Holds[0]; h.Owner != queued.Owner || h.Token != out.Token {
			t.Errorf("got %+v, want the owner %s with token %d", h, queued.Owner, out.Token)
		}
		if got, err := ps[1].ForceReasons(t.Context(), []admin.Ended{{Name: "job", Owner: peer.Owner}}); err != nil || got[0] != "why not" {
			t.Errorf("ForceReasons: got %q and error %v", got, err)
		}
	})
}

// Entries that are removed while a view completes them are left out. A waiter behind them
// may be shown as a holder then.
func TestGetWhileEntriesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		m.bare = true
		first, second := ps[0].claim(), ps[1].claim()
		ps[0].granted(first, true)
		ps[1].granted(second, false)
		var once sync.Once
		m.spoil(func(_ context.Context, call string) error {
			if call == "complete" {
				once.Do(func() { ps[0].release(first) })
			}
			return nil
		}, nil)
		if r := ps[1].record("job"); r.Holders != 1 || r.Holds[0].Owner != second.Owner || r.Holds[0].Token == 0 || r.Waiting != 0 {
			t.Errorf("got %+v, want the hold of %s alone", r, second.Owner)
		}
		m.spoil(nil, nil)
	})
}

// The number of permits of another program's semaphore is not known.
func TestGetOfPermitsOfAnotherProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		m.mu.Lock()
		for session := range int64(3) {
			m.add("job", ordered.Label{Kind: ordered.Permit}, "", 77+session)
		}
		m.mu.Unlock()
		if r := ps[0].record("job"); r.Kind != admin.KindSemaphore || r.Holders != 3 || r.Waiting != 0 || r.Permits != 0 || r.Free != 0 {
			t.Errorf("got %+v, want three holders of a number of permits that is not known", r)
		}
		m.mu.Lock()
		m.add("job", ordered.Label{Kind: ordered.Permit, Permits: 2, ID: "0123456789abcdef"}, "", 80)
		m.mu.Unlock()
		if r := ps[0].record("job"); r.Holders != 2 || r.Waiting != 2 || r.Permits != 2 || r.Free != 0 {
			t.Errorf("got %+v, want two holders of two permits, as an entry says", r)
		}
	})
}

// If a session has ended, its entries have no remaining time until the store removes them.
func TestGetOfAnEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		m.mu.Lock()
		m.add("job", ordered.Label{Kind: ordered.Mutex}, "", 77)
		m.mu.Unlock()
		if r := ps[0].record("job"); r.Holders != 1 || r.Holds[0].Remaining != 0 || r.Remaining != 0 {
			t.Errorf("got %+v, want a hold with nothing left", r)
		}
	})
}

// The entry of a released writer is a hold of its own: that of the readers that share it.
func TestForceUnlockOfReadersBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 1)
		p := ps[0]
		writer, reader := p.claim(), p.claim()
		writer.ReadWrite = true
		reader.ReadWrite, reader.Mode, reader.Beside = true, driver.Shared, writer.Owner
		p.granted(writer, true)
		p.granted(reader, true)
		before := p.record("job").Holds[0]
		p.release(writer)
		r := p.record("job")
		if h := r.Holds[0]; r.Kind != admin.KindReadWrite || r.Holders != 1 || h.Mode != driver.Shared || h.Owner == before.Owner {
			t.Fatalf("got %+v, want a shared hold of another owner than %s", r, before.Owner)
		}
		if err := p.ForceUnlock(t.Context(), "job", before.Holder, "too late"); !errors.Is(err, driver.ErrGone) {
			t.Errorf("ForceUnlock of the writer that has left: got error %v, want ErrGone", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		hints := make(chan uint64, 10)
		go func() { _ = p.Notify(ctx, p.name, func(seq uint64) { hints <- seq }) }()
		go func() {
			_ = p.Notify(ctx, "another client", func(seq uint64) { t.Errorf("another client got a hint for %d", seq) })
		}()
		synctest.Wait()
		if err := p.ForceUnlock(t.Context(), "job", r.Holds[0].Holder, "now"); err != nil {
			t.Errorf("ForceUnlock of the readers: got error %v", err)
		}
		if seq := <-hints; seq != reader.Seq {
			t.Errorf("got a hint for %d, want %d", seq, reader.Seq)
		}
		synctest.Wait()
		cancel()
		if gone := new(driver.GoneError); !errors.As(p.renewed(reader, driver.ErrGone).Err, &gone) || gone.Reason != driver.ReasonForced {
			t.Errorf("got reason %q, want forced", gone.Reason)
		}
		if got, err := p.ForceReasons(t.Context(), []admin.Ended{{Name: "job", Owner: r.Holds[0].Owner}}); err != nil || got[0] != "now" {
			t.Errorf("ForceReasons: got %q and error %v", got, err)
		}
	})
}

// A Release also finds out that a hold was forced.
func TestReleaseOfAForcedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 1)
		c := ps[0].claim()
		ps[0].granted(c, true)
		if err := ps[0].ForceUnlock(t.Context(), "job", ps[0].record("job").Holds[0].Holder, "now"); err != nil {
			t.Fatal(err)
		}
		var gone *driver.GoneError
		if err := ps[0].Release(t.Context(), c); !errors.As(err, &gone) || gone.Reason != driver.ReasonForced {
			t.Errorf("Release: got error %v, want one that says forced", err)
		}
	})
}

// Notes and owners are read as they were written, whatever they contain.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ps := processes(t, 1)
		for i, c := range []driver.Claim{
			{Client: "client", Owner: "client:1", Note: "two\nlines of text"},
			{Client: "client", Owner: "client:2", Note: ""},
			{Client: "client", Owner: "another owner", Note: "x"},
			{Client: "client", Owner: "client:3.a", Note: "y\n"},
		} {
			c.Name, c.Seq, c.TTL, c.Count, c.Tokens = fmt.Sprint("job ", i), uint64(i+1), ttl, 1, 1
			ps[0].granted(c, true)
			if h := ps[0].record(c.Name).Holds[0]; h.Owner != c.Owner || h.Note != c.Note {
				t.Errorf("got owner %q and note %q, want %q and %q", h.Owner, h.Note, c.Owner, c.Note)
			}
			other := c
			other.Client, other.Owner, other.NoQueue = "b", "b:9", true
			if out := ps[0].try(other); out.Granted || out.Holder != c.Note {
				t.Errorf("held by %q, want %q", out.Holder, c.Note)
			}
			ps[0].release(c)
		}
	})
}

// If a part cannot be read, the other parts are shown.
func TestGetOfAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		c := ps[0].claim()
		ps[0].granted(c, true)
		down := errors.New("down")
		other := ps[1].claim()
		other.Name = "other"
		ps[1].granted(other, true)
		var n atomic.Int32
		m.spoil(func(_ context.Context, call string) error {
			if call == "rest" && n.Add(1) == 2 {
				return down
			}
			return nil
		}, nil)
		records, err := ps[0].Get(t.Context(), "job", "free", "other")
		kinds := []admin.Kind{records[0].Kind, records[2].Kind}
		slices.Sort(kinds)
		if !errors.Is(err, down) || records[1].Kind != "" || !slices.Equal(kinds, []admin.Kind{admin.KindMutex, admin.KindUnknown}) {
			t.Errorf("got %+v and error %v", records, err)
		}
		m.spoil(nil, nil)
	})
}

// A list ends where its budget does, and with the store's error.
func TestListEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 1)
		for i := range 5 {
			c := ps[0].claim()
			c.Name = fmt.Sprint("job ", i)
			ps[0].granted(c, true)
		}
		list := func(f admin.Filter) (names []string, err error) {
			for r, failed := range ps[0].List(t.Context(), f) {
				if err = failed; err == nil {
					names = append(names, r.Name)
				}
			}
			return names, err
		}
		if names, err := list(admin.Filter{Keys: 3}); len(names) != 3 || !errors.Is(err, admin.ErrIncomplete) {
			t.Errorf("got %q and error %v, want three names and ErrIncomplete", names, err)
		}
		if names, err := list(admin.Filter{Keys: 5}); len(names) != 5 || err != nil {
			t.Errorf("got %q and error %v, want five names", names, err)
		}
		for r, err := range ps[0].List(t.Context(), admin.Filter{}) {
			if err != nil || r.Name != "job 0" {
				t.Errorf("got %+v and error %v", r, err)
			}
			break
		}
		down := errors.New("down")
		m.spoil(func(_ context.Context, call string) error {
			if call == "queue" {
				return down
			}
			return nil
		}, nil)
		if names, err := list(admin.Filter{}); len(names) != 0 || !errors.Is(err, down) {
			t.Errorf("got %q and error %v, want the store's", names, err)
		}
		m.spoil(nil, nil)
	})
}

// An Engine has no event log.
func TestNoLog(t *testing.T) {
	e := ordered.New(newMemory(ttl))
	_, read := e.ReadLog(t.Context(), admin.LogFilter{})
	for what, err := range map[string]error{"ReadLog": read, "AppendLog": e.AppendLog(t.Context(), admin.Client{}, nil)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got error %v, want errors.ErrUnsupported", what, err)
		}
	}
}
