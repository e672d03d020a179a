package dash

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	limits "github.com/holdfast-go/holdfast/internal/budget"
	"github.com/holdfast-go/holdfast/memhold"
)

// wide is a store with many held names, and the costs of a Redis: three scans of all keys, each
// with two commands for 200 keys, and three commands for each name that is read.
type wide struct {
	*memhold.Backend

	mu       sync.Mutex
	names    []string
	held     map[string]bool
	commands int // of all lists
}

func (s *wide) add(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, names...)
	for _, name := range names {
		s.held[name] = true
	}
}

func (s *wide) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range s.names {
		if n == name {
			s.names = append(s.names[:i:i], s.names[i+1:]...)
			delete(s.held, name)
			return
		}
	}
}

func (s *wide) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

func (s *wide) spent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands
}

func (s *wide) spend(b *limits.Budget, commands int) {
	b.Spent(commands)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands += commands
}

func (s *wide) record(name string) admin.Record {
	return admin.Record{Name: name, Kind: admin.KindMutex, Holders: 1, Remaining: time.Hour, Holds: []admin.Hold{{
		Holder: admin.Holder{Owner: "b983c153-7421-469a-addb-44fb92259a1b:1", Holds: 1, Remaining: time.Hour},
	}}}
}

func (s *wide) Get(_ context.Context, names ...string) (records []admin.Record, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if records = append(records, admin.Record{Name: name}); s.held[name] {
			records[len(records)-1] = s.record(name)
		}
	}
	return records, nil
}

// notLocks is how many keys of the store are no locks, but may be such until they are read.
const notLocks = 100

func (s *wide) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		b, names := limits.New(f), s.all()
		for i := range names[:min(len(names), notLocks)] {
			names = append(names[:len(names):len(names)], fmt.Sprint("no lock ", i))
		}
		for at := 0; at == 0 || at < len(names); at += 200 {
			if err := b.Wait(ctx); err != nil {
				yield(admin.Record{}, err)
				return
			}
			s.spend(b, 6)
			f.Progress(at, len(names))
			for _, name := range names[at:min(at+200, len(names))] {
				r := admin.Record{Name: name, Kind: admin.KindUnknown}
				if !f.Skip(name) {
					s.spend(b, 3)
					if strings.HasPrefix(name, "no lock") {
						continue
					}
					r = s.record(name)
				}
				if err := b.Wait(ctx); err != nil {
					yield(admin.Record{}, err)
					return
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// watched runs a test with a dashboard that polls a wide store.
func watched(t *testing.T, test func(*testing.T, *wide, *Dashboard)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &wide{Backend: memhold.New(), held: map[string]bool{}}
		d := Handler(admin.New(s), nil)
		watching := make(chan error, 1)
		go func() { watching <- d.Watch(t.Context()) }()
		defer func() {
			d.Close()
			<-watching
		}()
		test(t, s, d)
	})
}

// promised returns the time that follows a text in the state of the scan.
func promised(t *testing.T, d *Dashboard, text string) time.Duration {
	t.Helper()
	progress := d.table.now().progress()
	found := regexp.MustCompile(text + ` ([0-9hms ]+)`).FindStringSubmatch(progress)
	if found == nil {
		t.Fatalf("got %q, want a time after %q", progress, text)
	}
	limit, err := time.ParseDuration(strings.ReplaceAll(found[1], " ", ""))
	if err != nil {
		t.Fatalf("%q: %v", progress, err)
	}
	return limit
}

func (d *Dashboard) knows(name string) bool {
	_, known := d.table.Get(name)
	return known
}

// Thousands of names that appear at once are found within the time that the pages state, and
// meanwhile a single new name within the time that they state for such a name. The store gets
// no more commands than with few names.
func TestManyNewNames(t *testing.T) {
	watched(t, func(t *testing.T, s *wide, d *Dashboard) {
		time.Sleep(5 * time.Second)
		if text := d.table.now().progress(); text != "" {
			t.Errorf("an empty store: got %q, want nothing", text)
		}
		const many = 4000
		names := make([]string, many)
		for i := range names {
			names[i] = fmt.Sprint("name", i)
		}
		s.add(names...)
		began, before := time.Now(), s.spent()
		time.Sleep(10 * time.Second)
		rest := promised(t, d, "the rest within")
		for _, fact := range d.facts() {
			if fact.Name == "Names in use" && !strings.Contains(fact.Text, "of about 4100 keys read") {
				t.Errorf("Health: got %q, want what is not read", fact.Text)
			}
		}
		for i := range 3 {
			name, find := fmt.Sprint("foreign", i), fmt.Sprint("name399", i)
			s.add(name)
			d.views.open(query{find: strings.ToUpper(find)}, "")
			time.Sleep(promised(t, d, "new names appear within"))
			if !d.knows(name) {
				t.Errorf("%s is missing after the time stated", name)
			}
			if !d.knows(find) {
				t.Errorf("%s is missing, although a user searches for it", find)
			}
		}
		if n := sum(d.table.All).Names; n >= many {
			t.Fatalf("got %d names after %v: the store is too fast for this test", n, time.Since(began))
		}
		time.Sleep(rest + began.Sub(time.Now()))
		if n := sum(d.table.All).Names; n != many+3 {
			t.Errorf("got %d names after %v, want all", n, rest)
		}
		if n, most := s.spent()-before, scanPace*int(time.Since(began).Seconds())+2*scanBurst; n > most {
			t.Errorf("got %d commands, want %d at most", n, most)
		}
		s.remove("name77")
		time.Sleep(promised(t, d, "new names appear within"))
		if d.knows("name77") {
			t.Error("a name is still in use after the time in which a scan sees all names")
		}
	})
}

// In a store with few names every scan reads all of them, and the pages say nothing about it.
func TestFewNames(t *testing.T) {
	watched(t, func(t *testing.T, s *wide, d *Dashboard) {
		s.add("a", "b", "c")
		time.Sleep(time.Minute)
		s.add("d")
		time.Sleep(2 * time.Second)
		for _, name := range s.all() {
			if state, _ := d.table.Get(name); time.Since(state.Seen) > 2*time.Second {
				t.Errorf("%s was read %v ago, want 2s at most", name, time.Since(state.Seen))
			}
		}
		if text := d.table.now().progress(); text != "" {
			t.Errorf("got %q, want nothing", text)
		}
	})
}

// A name is read in turn, also if there are more names than a scan can read. What is
// remembered of them is limited.
func TestPlan(t *testing.T) {
	p := newPlan()
	last := make([]uint32, 2000)
	for range 40 {
		p.begin()
		read := 0
		for i := range last {
			if !p.skip(fmt.Sprint(i), nil) {
				last[i] = p.number
				read++
			}
			if !p.skip(fmt.Sprint(i), nil) {
				t.Fatal("a name that a store lists twice is read twice")
			}
		}
		if read > scanReads {
			t.Fatalf("got %d reads of one scan, want %d at most", read, scanReads)
		}
		p.end()
	}
	for i, number := range last {
		if p.number-number > 2*2000/scanKnown {
			t.Fatalf("name %d was last read by scan %d of %d", i, number, p.number)
		}
	}
	p.begin()
	for i := range mostFound + 10 {
		p.skip(fmt.Sprint("other", i), nil)
	}
	if len(p.names) > mostFound || !p.isOver() {
		t.Errorf("got %d names, and more: %v; want %d at most, and more", len(p.names), p.isOver(), mostFound)
	}
	p.end()
	p.begin()
	p.end()
	if len(p.names) != 0 || p.unread != 0 {
		t.Errorf("got %d names, %d of them unread, after all are gone; want none", len(p.names), p.unread)
	}
}
