package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/memhold"
)

// said is what tail makes of two looks, the second of which is a second later.
func said(before, after admin.Record) string {
	begun := time.Now()
	first := &observation{at: begun, since: map[string]time.Time{}}
	was := &observation{Record: before, at: begun, since: map[string]time.Time{}}
	was.differences(first, true)
	if before.Remaining > 0 { // the lease was longer once
		was.span[before.Holds[0].Owner] = before.Remaining
	}
	is := &observation{Record: after, at: begun.Add(time.Second), since: map[string]time.Time{}}
	var all []string
	for _, c := range is.differences(was, false) {
		text := c.Event + " " + c.Owner
		if c.Waiting != nil {
			text += fmt.Sprint(*c.Waiting)
		}
		if c.HeldMS > 0 {
			text += fmt.Sprint(" ", c.HeldMS)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func held(lease time.Duration, owners ...string) admin.Record {
	r := admin.Record{Name: "job", Kind: admin.KindMutex, Holders: len(owners)}
	for _, o := range owners {
		r.Holds = append(r.Holds, admin.Hold{Holder: admin.Holder{Owner: o, Holds: 1, Remaining: lease}})
	}
	return r
}

// lately is a lock of whose lease of 30 s so much is left.
func lately(left time.Duration, owner string) admin.Record {
	r := held(left, owner)
	r.Remaining = 30 * time.Second
	return r
}

func TestTailTellsChangesApart(t *testing.T) {
	again := held(time.Minute, "a")
	again.Holds[0].Holds = 2
	queued := held(time.Minute, "a")
	queued.Waiting = 3
	many := held(time.Minute, "a")
	many.Holders = 40 // of which the store shows one
	others := held(time.Minute, "b")
	others.Holders = 40
	for _, test := range []struct {
		name          string
		before, after admin.Record
		want          string
	}{
		{"nothing", held(time.Minute, "a"), held(time.Minute, "a"), ""},
		{"released", held(time.Minute, "a"), held(0), "released a 1000"},
		{"expired", held(900*time.Millisecond, "a"), held(0), "expired a 1000"},
		{"never ends", held(-1, "a"), held(0), "released a 1000"},
		{"passed on", held(time.Minute, "a"), held(time.Minute, "b"), "released a 1000, acquired b"},
		{"one more", held(time.Minute, "a"), held(time.Minute, "a", "b"), "acquired b"},
		{"again", held(time.Minute, "a"), again, "count a"},
		{"renewed late", lately(9*time.Second, "a"), held(30*time.Second, "a"), "renewed-late a"},
		{"renewed in time", lately(11*time.Second, "a"), held(30*time.Second, "a"), ""},
		{"not renewed", lately(9*time.Second, "a"), held(8*time.Second, "a"), ""},
		{"queue", held(time.Minute, "a"), queued, "waiting 3"},
		{"some of many", many, others, ""},
	} {
		if got := said(test.before, test.after); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestTailLooksInTurn(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	tail := &tailer{tailOptions: &tailOptions{pace: 8, every: time.Second}}
	for _, want := range []string{"[a b]", "[c d]", "[e a]", "[b c]"} {
		if got := fmt.Sprint(tail.turn(names)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	tail.pace = 0
	if got := tail.turn(names); len(got) != 5 {
		t.Errorf("got %v, want all", got)
	}
}

// partly is a store of which a look reads only some names, or none.
type partly struct {
	*memhold.Backend
	records []admin.Record
	err     error
}

func (p *partly) Get(context.Context, ...string) ([]admin.Record, error) { return p.records, p.err }

// A hold that was ended by force is reported as such once, with the reason; one whose
// lease was over is not asked about.
func TestTailTellsOfForce(t *testing.T) {
	for _, test := range []struct {
		name   string
		lease  time.Duration
		marked string
		told   string
		want   string
	}{
		{"forced", time.Minute, "stuck (ann@host)", "", "forced: stuck (ann@host)"},
		{"released", time.Minute, "", "", "released: "},
		{"told before", time.Minute, "stuck (ann@host)", "stuck (ann@host)", "released: "},
		{"forced again", time.Minute, "again (ann@host)", "stuck (ann@host)", "forced: again (ann@host)"},
		{"expired", 0, "stuck (ann@host)", "", "expired: "},
	} {
		var out bytes.Buffer
		store := &marked{partly: partly{Backend: memhold.New(), records: []admin.Record{held(0)}}, why: test.marked}
		l := &reader{options: &readOptions{json: true}, env: environment{stdout: &out}, console: admin.New(store)}
		tail := newTailer(&tailOptions{readOptions: readOptions{json: true}, every: time.Second}, l)
		tail.known["job"] = &observation{Record: held(test.lease, "a"), at: time.Now(), since: map[string]time.Time{}}
		if test.told != "" {
			tail.reasons[admin.Ended{Name: "job", Owner: "a"}] = test.told
		}
		if err := tail.lookAgain(t.Context()); err != nil {
			t.Errorf("%s: got %v", test.name, err)
		}
		var c change
		if err := json.Unmarshal(out.Bytes(), &c); err != nil || c.Event+": "+c.Reason != test.want {
			t.Errorf("%s: got %s and error %v, want %q", test.name, out.String(), err, test.want)
		}
		if asked := test.lease > 0; store.asked != asked {
			t.Errorf("%s: asked why: %v, want %v", test.name, store.asked, asked)
		}
	}
}

// marked is a store whose holds were all forced.
type marked struct {
	partly
	why   string
	asked bool
}

func (m *marked) ForceReasons(_ context.Context, ended []admin.Ended) ([]string, error) {
	m.asked = true
	why := make([]string, len(ended))
	for i := range why {
		why[i] = m.why
	}
	return why, nil
}

func TestTailUsesWhatWasRead(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	unread := admin.Record{Name: "other", Kind: admin.KindUnknown}
	for _, test := range []struct {
		name    string
		ctx     context.Context
		store   partly
		failing bool
		want    string
	}{
		{"partly", t.Context(), partly{records: []admin.Record{held(0), unread}, err: errors.New("down")}, false, "released unreachable"},
		{"still", t.Context(), partly{records: []admin.Record{held(0), unread}, err: errors.New("down")}, true, "released"},
		{"all again", t.Context(), partly{records: []admin.Record{held(0)}}, true, "released back"},
		{"the end", ended, partly{err: context.Canceled}, true, ""},
		{"the end of the connection", ended, partly{err: errors.New("closed")}, false, ""},
	} {
		var out bytes.Buffer
		test.store.Backend = memhold.New()
		l := &reader{options: &readOptions{}, env: environment{stdout: &out}, console: admin.New(&test.store)}
		tail := newTailer(&tailOptions{every: time.Second}, l)
		for _, name := range []string{"job", "other"} {
			r := held(time.Minute, "a")
			r.Name = name
			tail.known[name] = &observation{Record: r, at: time.Now(), since: map[string]time.Time{}}
		}
		if test.failing {
			tail.failing = time.Now()
		}
		if err := tail.lookAgain(test.ctx); err != nil {
			t.Errorf("%s: got %v", test.name, err)
		}
		var events []string
		for line := range strings.Lines(out.String()) {
			events = append(events, strings.Fields(line)[1])
		}
		if got := strings.Join(events, " "); got != test.want || tail.known["other"] == nil {
			t.Errorf("%s: got %q, want %q; known are %v", test.name, got, test.want, tail.known)
		}
	}
}

// A hold whose holder notices late that it is gone was printed as over before: the
// loss says that it is the same end.
func TestTailSaysThatALossWasSeenBefore(t *testing.T) {
	lost := func(owner string) admin.Entry {
		return admin.Entry{Type: admin.EntryLost, At: time.Now(), Name: "job", Owner: owner, Note: "ci", HeldFor: 14 * time.Second, Reason: "deleted"}
	}
	for _, json := range []bool{false, true} {
		var out bytes.Buffer
		l := &reader{options: &readOptions{}, env: environment{stdout: &out}, console: admin.New(memhold.New())}
		tail := newTailer(&tailOptions{readOptions: readOptions{json: json}, every: time.Second}, l)
		tail.known["job"] = &observation{Record: held(time.Minute, "a"), at: time.Now(), since: map[string]time.Time{}}
		if err := tail.compare(held(0), nil); err != nil {
			t.Fatal(err)
		}
		if err := tail.printEntries([]admin.Entry{lost("b"), lost("a"), lost("a")}, tail.onlyLogged); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 {
			t.Fatalf("got %q, want an end that was seen, and three losses", lines)
		}
		mark := "deleted; seen as released before"
		if json {
			mark = `"seen_as":"released"`
		}
		for i, marked := range []bool{false, false, true, false} {
			if strings.Contains(lines[i], mark) != marked {
				t.Errorf("line %d: got %s, want %q in it: %v", i, lines[i], mark, marked)
			}
		}
	}
}

func TestTailForgets(t *testing.T) {
	l := &reader{options: &readOptions{}, env: environment{stdout: io.Discard}, console: admin.New(memhold.New())}
	tail := newTailer(&tailOptions{every: time.Second}, l)
	for i := range 3 * mostEnds {
		c := change{Event: "released", Name: "job", Owner: fmt.Sprint(i)}
		tail.markForced(&c, "stuck")
		tail.sawEnd(c)
		c.Event = "released"
		tail.sawEnd(c)
	}
	if len(tail.reasons) > mostEnds || len(tail.ends) > mostEnds {
		t.Errorf("got %d and %d, want %d at most", len(tail.reasons), len(tail.ends), mostEnds)
	}
}
