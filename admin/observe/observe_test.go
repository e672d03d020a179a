package observe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// source is a store whose event log may fail, and which gives one reason for all holds that
// were forced.
type source struct {
	*memhold.Backend
	logFails error
	reads    int
	names    []string // of the locks that a List finds
	listErr  error    // how a List ends
	reason   string
	asked    int
}

func (s *source) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if s.reads++; s.logFails != nil {
		return nil, s.logFails
	}
	return s.Backend.ReadLog(ctx, f)
}

func (s *source) List(_ context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return func(yield func(admin.Record, error) bool) {
		for _, name := range s.names {
			r := record(held("a:1", -1))
			if f.Skip != nil && f.Skip(name) {
				r = admin.Record{Kind: admin.KindUnknown}
			}
			if r.Name = name; !yield(r, nil) {
				return
			}
		}
		if s.listErr != nil {
			yield(admin.Record{}, s.listErr)
		}
	}
}

func (s *source) ForceReasons(_ context.Context, ended []admin.Ended) ([]string, error) {
	s.asked += len(ended)
	reasons := make([]string, len(ended))
	for i := range reasons {
		reasons[i] = s.reason
	}
	return reasons, nil
}

// site is an Observer in a bubble.
type site struct {
	*testing.T
	source *source
	*Observer
}

func inBubble(t *testing.T, test func(*site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, source: &source{Backend: memhold.New()}}
		s.Observer = New(admin.New(s.source), nil)
		test(s)
	})
}

// poll is a poll of the lock "job" with these holds.
func (s *site) poll(holds ...admin.Hold) { s.Poll(s.Context(), time.Now(), record(holds...)) }

func record(holds ...admin.Hold) admin.Record {
	r := admin.Record{Name: "job", Holds: holds, Holders: len(holds)}
	if len(holds) > 0 {
		r.Kind = admin.KindMutex
	}
	return r
}

func held(owner string, left time.Duration) admin.Hold {
	return admin.Hold{Holder: admin.Holder{Owner: owner, Holds: 1, Remaining: left, Note: "of " + owner}}
}

// report writes an entry of owner to the event log, and reads the log.
func (s *site) report(what admin.EntryType, owner string, e admin.Entry) {
	s.Helper()
	client, _, _ := strings.Cut(owner, ":")
	e.Type, e.Name, e.Owner, e.At = what, "job", owner, time.Now()
	if what == admin.EntryForced {
		client = "" // another client forced it
	}
	if err := s.source.AppendLog(s.Context(), admin.Client{ID: client, Note: "log of " + client}, []admin.Entry{e}); err != nil {
		s.Fatal(err)
	}
	s.read()
}

func (s *site) read() {
	s.Helper()
	for more := true; more; {
		var err error
		if more, err = s.ReadLog(s.Context(), Past); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			s.Fatal(err)
		}
	}
}

// wants compares the changes that are due with a list as "released a:1, acquired b:1!".
// A mark ! is at those that were reported.
func (s *site) wants(want string) {
	s.Helper()
	var list []string
	for _, c := range s.Take(time.Now()) {
		text := strings.TrimSpace(fmt.Sprint(c.Type, " ", c.Owner))
		if c.Reported {
			text += "!"
		}
		list = append(list, text)
	}
	if got := strings.Join(list, ", "); got != want {
		s.Errorf("got %q, want %q", got, want)
	}
}

// wantsInTheEnd is wants for everything.
func (s *site) wantsInTheEnd(want string) {
	s.Helper()
	time.Sleep(Delay)
	s.read()
	s.wants(want)
}

// Each event is in the stream once, whichever source has it first.
func TestEachClientHasOneSource(t *testing.T) {
	inBubble(t, func(s *site) {
		s.scanned.Store(true)
		s.poll(held("a:1", time.Minute))
		time.Sleep(time.Second)
		s.report(admin.EntryAcquired, "a:1", admin.Entry{})
		s.wantsInTheEnd("acquired a:1!")
		s.report(admin.EntryReleased, "a:1", admin.Entry{})
		time.Sleep(time.Second)
		s.poll(held("java:1", time.Minute))
		s.wantsInTheEnd("released a:1!, acquired java:1")
		s.poll(held("a:2", time.Minute))
		s.wantsInTheEnd("released java:1") // the log has a hole
		time.Sleep(Past + time.Second)
		s.poll(held("a:3", time.Minute))
		s.wantsInTheEnd("expired a:2, acquired a:3")
	})
}

// Only polling finds that the lease of a dead client expired. A client that lives reports a
// loss or a release of the same hold.
func TestExpiredLeases(t *testing.T) {
	for _, test := range []struct {
		reported admin.EntryType
		want     string
	}{
		{"", "expired a:1"},
		{admin.EntryLost, "lost a:1!"},
		{admin.EntryReleased, "released a:1!"},
	} {
		inBubble(t, func(s *site) {
			s.poll(held("a:1", 10*time.Second))
			s.report(admin.EntryAcquired, "a:1", admin.Entry{})
			s.report(admin.EntryLost, "a:1", admin.Entry{}) // of a hold before
			s.wantsInTheEnd("held a:1, acquired a:1!, lost a:1!")
			s.scanned.Store(true)
			s.poll()
			s.poll(held("a:1", 7*time.Second))
			s.wantsInTheEnd("")
			time.Sleep(5 * time.Second)
			if test.reported != "" {
				s.report(test.reported, "a:1", admin.Entry{})
			}
			s.poll()
			s.wantsInTheEnd(test.want)
		})
	}
}

// Polling and the client that forced a hold both know of that. The stream has it once, with
// the holder, which only polling knows.
func TestForcedHolds(t *testing.T) {
	for _, order := range []string{"poll", "poll report", "report poll"} {
		inBubble(t, func(s *site) {
			s.source.reason = "stuck (ann)"
			s.poll(held("a:1", time.Minute))
			s.scanned.Store(true)
			s.Take(time.Now())
			time.Sleep(10 * time.Second)
			for what := range strings.FieldsSeq(order) {
				if what == "poll" {
					s.poll()
				} else {
					s.report(admin.EntryForced, "a:1", admin.Entry{Reason: "stuck (ann)"})
				}
			}
			time.Sleep(Delay)
			list := s.Take(time.Now())
			if len(list) != 1 || list[0].Type != admin.EntryForced || list[0].Note != "of a:1" || list[0].HeldFor != 10*time.Second || list[0].Reason != "stuck (ann)" {
				t.Errorf("%s: got %+v, want one forced unlock of a:1 after 10s", order, list)
			}
			// The store remembers the reason, and the same thread of Redisson's comes again.
			s.poll(held("a:1", time.Minute))
			time.Sleep(time.Second)
			s.poll()
			s.wantsInTheEnd("acquired a:1, released a:1")
			s.source.reason = "again (ann)"
			s.poll(held("a:1", time.Minute))
			time.Sleep(time.Second)
			s.poll()
			s.wantsInTheEnd("acquired a:1, forced a:1")
			if s.source.asked != 3 {
				t.Errorf("%s: asked for %d reasons, want 3", order, s.source.asked)
			}
		})
	}
}

// The holder of a forced hold is known if polling found it, also if no poll shows yet that
// the hold ended. The loss of the holder is another event.
func TestForcedHoldsThatAreNotPolledAgain(t *testing.T) {
	for _, polled := range []bool{true, false} {
		inBubble(t, func(s *site) {
			want := ""
			if polled {
				want = "of a:1"
				s.poll(held("b:1", time.Minute), held("a:1", time.Minute))
				s.Take(time.Now())
			}
			time.Sleep(10 * time.Second)
			s.report(admin.EntryForced, "a:1", admin.Entry{Reason: "stuck"})
			s.report(admin.EntryLost, "a:1", admin.Entry{Reason: "forced", HeldFor: 10 * time.Second})
			time.Sleep(Delay)
			list := s.Take(time.Now())
			if len(list) != 2 || list[0].Note != want || (list[0].HeldFor == 10*time.Second) != polled || list[1].Note != "log of a" {
				t.Errorf("polled: %v: got %+v, want a forced unlock of %q, and a loss", polled, list, want)
			}
		})
	}
}

func TestExpiredHoldsAreNotAskedAbout(t *testing.T) {
	inBubble(t, func(s *site) {
		s.source.reason = "stuck"
		s.poll(held("a:1", time.Second))
		time.Sleep(time.Second)
		s.poll()
		if s.wantsInTheEnd("held a:1, expired a:1"); s.source.asked != 0 {
			t.Errorf("asked for %d reasons, want none", s.source.asked)
		}
	})
}

// The stream is in the order of time, and nothing is kept back where there is no event log.
func TestOrderAndDelay(t *testing.T) {
	inBubble(t, func(s *site) {
		s.scanned.Store(true)
		s.report(admin.EntryAcquired, "b:1", admin.Entry{Mode: driver.Shared})
		time.Sleep(time.Second)
		s.poll(held("a:1", time.Minute))
		s.wants("")
		time.Sleep(time.Second)
		s.report(admin.EntryReleased, "b:1", admin.Entry{})
		s.wants("acquired b:1!")
		time.Sleep(time.Second)
		s.wants("acquired a:1")
		s.source.logFails = errors.ErrUnsupported
		s.read()
		s.wants("released b:1!")
		s.poll()
		s.wants("released a:1")
	})
}

// After a long pause only the entries of the time before are read.
func TestLogIsReadAnewAfterAPause(t *testing.T) {
	inBubble(t, func(s *site) {
		s.report(admin.EntryAcquired, "a:1", admin.Entry{})
		s.read()
		s.wantsInTheEnd("acquired a:1!")
		if err := s.source.AppendLog(s.Context(), admin.Client{ID: "a"}, []admin.Entry{{Type: admin.EntryLost, Name: "job", Owner: "a:1", At: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Past + time.Minute)
		s.report(admin.EntryAcquired, "a:2", admin.Entry{})
		s.wantsInTheEnd("acquired a:2!")
	})
}

// A log that cannot be read is left alone for a while.
func TestLogThatFails(t *testing.T) {
	inBubble(t, func(s *site) {
		s.source.logFails = errors.New("down")
		for i, fails := range []bool{true, false, false, true} {
			if more, err := s.ReadLog(s.Context(), Past); more || (err != nil) != fails {
				t.Errorf("read %d: got %v and %v, want an error: %v", i, more, err, fails)
			}
			time.Sleep(logRetry / 3)
		}
		if !s.HasLog() || s.source.reads != 2 {
			t.Errorf("got %d reads, and a log: %v; want 2 and a log", s.source.reads, s.HasLog())
		}
	})
}

// What a complete scan does not find is free. Only after that are holds of new names new.
func TestScans(t *testing.T) {
	inBubble(t, func(s *site) {
		s.Observer = New(admin.New(s.source), &Options{Names: 3})
		for _, test := range []struct {
			found  string
			err    error
			missed string
			want   string
		}{
			{"x y no", errors.New("down"), "", "held a:1, held a:1"},
			{"z", errors.New("down"), "x y", "held a:1"},
			{"z", nil, "", "released a:1, released a:1"},
			{"x y z", nil, "", "acquired a:1, acquired a:1"},
			{"z y x w", admin.ErrIncomplete, "", ""}, // more than the limit
			{"y", errors.New("down"), "z x", ""},
			{"", nil, "", "released a:1, released a:1, released a:1"},
		} {
			s.source.names, s.source.listErr = strings.Fields(test.found), nil
			if test.err != admin.ErrIncomplete {
				s.source.listErr = test.err
			}
			missed, err := s.Scan(s.Context(), admin.Filter{}, func(name string) bool {
				time.Sleep(time.Millisecond)
				return name != "no"
			})
			if got := strings.Join(missed, " "); got != test.missed || !errors.Is(err, test.err) {
				t.Errorf("%q: missed %q with error %v, want %q and %v", test.found, got, err, test.missed, test.err)
			}
			s.wantsInTheEnd(test.want)
		}
	})
}

// A scan may leave out names. These are not free, and not new when a later scan reads them.
func TestScansThatSkip(t *testing.T) {
	inBubble(t, func(s *site) {
		for _, test := range []struct{ found, skipped, want string }{
			{"x y z", "z", "held a:1, held a:1"},
			{"x y z", "x y", "held a:1"},
			{"x y z", "", ""},
			{"x z new", "x z new", "released a:1"},
			{"x z new", "x z", "acquired a:1"},
		} {
			time.Sleep(time.Second)
			s.source.names = strings.Fields(test.found)
			skip := func(name string) bool { return strings.Contains(test.skipped, name) }
			began, read := time.Now(), 0
			_, err := s.Scan(s.Context(), admin.Filter{Skip: skip}, func(string) bool { read++; return true })
			if err != nil || read != len(s.source.names)-len(strings.Fields(test.skipped)) {
				t.Errorf("%+v: read %d names, error %v", test, read, err)
			}
			for e := range s.All {
				if skipped := skip(e.Name); skipped != e.Seen.Before(began) {
					t.Errorf("%+v: %s was last read at %v, the scan began at %v", test, e.Name, e.Seen, began)
				}
			}
			s.wantsInTheEnd(test.want)
		}
	})
}

// A poll whose answer is older than what is known changes nothing, and beyond the limit
// names are ignored.
func TestPollsThatAreIgnored(t *testing.T) {
	inBubble(t, func(s *site) {
		s.Observer = New(admin.New(s.source), &Options{Names: 1, Reasons: func(int) int { return 0 }})
		s.source.reason = "stuck"
		s.poll(held("a:1", time.Minute))
		s.Poll(s.Context(), time.Now().Add(-time.Second), record())
		other := record(held("b:1", time.Minute))
		other.Name = "other"
		s.Poll(s.Context(), time.Now(), other)
		s.wants("held a:1")
		s.poll()
		s.wantsInTheEnd("released a:1") // nobody may ask why
	})
}

// A name that cannot be read is not the first one of each poll.
func TestOrderOfPolls(t *testing.T) {
	inBubble(t, func(s *site) {
		for _, r := range []admin.Record{
			{Name: "a", Kind: admin.KindMutex},
			{Name: "b", Kind: admin.KindMutex},
			{Name: "c", Kind: admin.KindMutex},
			{Name: "a", Kind: admin.KindUnknown},
			{Name: "unknown", Kind: admin.KindUnknown},
			{Name: "b", Kind: admin.KindMutex},
		} {
			s.Poll(s.Context(), time.Now(), r)
			time.Sleep(time.Second)
		}
		if got := fmt.Sprint(s.PolledBefore(time.Now())); got != "[c a b]" {
			t.Errorf("got %s, want the name with the oldest poll first", got)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	inBubble(t, func(s *site) {
		for i := range mostRemembered + 1 {
			s.Report(admin.Entry{Type: admin.EntryLost, Name: "job", Owner: fmt.Sprint(i), Client: admin.Client{ID: fmt.Sprint(i)}, At: time.Now()})
			s.Report(admin.Entry{Type: admin.EntryForced, Name: "job", Owner: fmt.Sprint(i), At: time.Now()})
		}
		if n := len(s.Take(time.Now().Add(Delay))); n != 2*(mostRemembered+1) {
			t.Errorf("got %d changes", n)
		}
		if len(s.reporters) != 1 || len(s.reported) != 1 || len(s.forced) != 1 || s.pending != nil {
			t.Errorf("remembers %d, %d, %d and %d", len(s.reporters), len(s.reported), len(s.forced), len(s.pending))
		}
	})
}
