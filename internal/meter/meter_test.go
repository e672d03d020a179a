package meter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/meter"
)

func TestPrefix(t *testing.T) {
	for name, want := range map[string]string{
		"stock:42": "stock", "stock42": "stock", "order-7:x": "order-", "{user}:1": "{user}",
		"nightly": "nightly", "42": "", ":x": "", "": "", "日報:1": "日報",
	} {
		if got := meter.Prefix(name); got != want {
			t.Errorf("Prefix(%q): got %q, want %q", name, got, want)
		}
	}
}

// TestGroups shows that the first hundred groups have their own label, and others do not.
func TestGroups(t *testing.T) {
	if got := meter.NewGroups(nil).Label("stock:42"); got != "" {
		t.Errorf("without a function: got %q, want none", got)
	}
	g := meter.NewGroups(func(name string) string { return name })
	for range 2 {
		for i := range 101 {
			want := fmt.Sprint("group ", i)
			if i == 100 {
				want = "other"
			}
			if got := g.Label(fmt.Sprint("group ", i)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := g.Label(""); got != "" {
				t.Errorf("the empty group: got %q", got)
			}
		}
	}
}

// TestGroupsConcurrently is for the race detector. All goroutines must get the same label
// for a name.
func TestGroupsConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := meter.NewGroups(func(name string) string { return name })
		var labels [8][200]string
		for i := range labels {
			go func() {
				for j := range labels[i] {
					labels[i][j] = g.Label(fmt.Sprint("group ", (j*7+i)%200))
				}
			}()
		}
		synctest.Wait()
		answers := map[string]string{}
		for i := range labels {
			for j, label := range labels[i] {
				name := fmt.Sprint("group ", (j*7+i)%200)
				if first, ok := answers[name]; ok && first != label {
					t.Errorf("%s is %q and %q", name, first, label)
				}
				answers[name] = label
			}
		}
		others := 0
		for _, label := range answers {
			if label == "other" {
				others++
			}
		}
		if others != 100 {
			t.Errorf("got %d of 200 groups that are others, want 100", others)
		}
	})
}

func TestGroupsAreText(t *testing.T) {
	g := meter.NewGroups(func(name string) string { return name })
	if got := g.Label("a\xffb"); got != "a\uFFFDb" {
		t.Errorf("got %q, want the invalid byte replaced", got)
	}
	long := g.Label(strings.Repeat("é", 1000)[1:])
	if len(long) > 140 || !utf8.ValidString(long) {
		t.Errorf("got %d bytes, valid %t; want about 128 of valid UTF-8", len(long), utf8.ValidString(long))
	}
}

func TestAcquireOutcome(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), nil, "acquired"},
		{over, nil, "acquired"},
		{t.Context(), &holdfast.BusyError{}, "busy"},
		{over, &holdfast.BusyError{}, "busy"},
		{over, fmt.Errorf("lock: %w", context.Canceled), "canceled"},
		{late, fmt.Errorf("lock: %w", context.DeadlineExceeded), "timeout"},
		{t.Context(), fmt.Errorf("lock: %w", context.DeadlineExceeded), "error"}, // the store's own
		{over, errors.New("refused"), "error"},
	} {
		if got := meter.AcquireOutcome(c.ctx, c.err); got != c.want {
			t.Errorf("%v, context %v: got %s, want %s", c.err, c.ctx.Err(), got, c.want)
		}
	}
}

// TestEnds shows how the end of a hold counts, and whether it is a loss.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		e         holdfast.Event
		end, lost string
	}{
		{holdfast.Event{Type: holdfast.EventRelease}, "released", ""},
		{holdfast.Event{Type: holdfast.EventRelease, Err: errors.New("not confirmed")}, "released", ""},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: driver.ReasonForced}, "forced", "forced"},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: driver.ReasonExpired}, "lost", "expired"},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: driver.ReasonExpired, Leased: true}, "fixed_lease", ""},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: driver.ReasonForced, Leased: true}, "forced", "forced"},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: driver.ReasonEvicted, Leased: true}, "lost", "evicted"},
		{holdfast.Event{Type: holdfast.EventLoss, Reason: "of its own"}, "lost", "other"},
	} {
		reason, lost := meter.Loss(c.e)
		if end := meter.HoldEnd(c.e); end != c.end || reason != c.lost || lost != (c.lost != "") {
			t.Errorf("%s, %s: got end %s, loss %q %t; want %s, %q", c.e.Type, c.e.Reason, end, reason, lost, c.end, c.lost)
		}
	}
	lost := fmt.Errorf("unlock: %w", holdfast.ErrLost)
	if !meter.FoundLost(holdfast.Event{Type: holdfast.EventRelease, Err: lost}) || meter.FoundLost(holdfast.Event{Type: holdfast.EventLoss, Err: lost}) ||
		meter.FoundLost(holdfast.Event{Type: holdfast.EventRelease, Err: errors.New("not confirmed")}) {
		t.Error("FoundLost is not: a release that found the lock gone")
	}
}

// TestSeriesExistFromTheStart compares the series of events with those that exist from the
// start.
func TestSeriesExistFromTheStart(t *testing.T) {
	m := meter.New(nil, []string{"leader"})
	start := map[string]bool{}
	m.Start(func(id meter.Metric, value float64, labels ...string) {
		if start[fmt.Sprint(id, labels)] = true; value != 0 {
			t.Errorf("metric %d %q: got %v, want 0", id, labels, value)
		}
	})
	noAnswer, gone := errors.New("no answer"), fmt.Errorf("call: %w", &driver.GoneError{Reason: driver.ReasonExpired})
	events := []holdfast.Event{
		{Type: holdfast.EventAcquire, Name: "leader"},
		{Type: holdfast.EventWake},
		{Type: holdfast.EventWake, Notified: true},
		{Type: holdfast.EventRenew},
		{Type: holdfast.EventRenew, Late: true},
		{Type: holdfast.EventRenew, Err: noAnswer},
		{Type: holdfast.EventRenew, Err: gone},
		{Type: holdfast.EventIndeterminate, Op: holdfast.OpTry},
		{Type: holdfast.EventIndeterminate, Op: holdfast.OpRelease, Resolved: true},
		{Type: holdfast.EventLoss, Reason: driver.ReasonExpired},
		{Type: holdfast.EventLoss, Reason: driver.ReasonForced},
	}
	for _, op := range []string{holdfast.OpTry, holdfast.OpRenew, holdfast.OpRelease} {
		for _, err := range []error{nil, noAnswer, gone} {
			events = append(events, holdfast.Event{Type: holdfast.EventCall, Op: op, Err: err})
		}
	}
	for _, e := range events {
		m.Observe(t.Context(), e, func(id meter.Metric, _ float64, labels ...string) {
			switch id {
			case meter.Lost, meter.Wakeups, meter.Renewals, meter.Indeterminate, meter.Calls, meter.Leader:
				if !start[fmt.Sprint(id, labels)] {
					t.Errorf("%+v: the series %d %q does not exist from the start", e, id, labels)
				}
			}
		})
	}
}

// TestLabels shows how outcomes, and values of a later version, count.
func TestLabels(t *testing.T) {
	gone := fmt.Errorf("call: %w", &driver.GoneError{Reason: driver.ReasonExpired})
	for _, c := range []struct {
		e    holdfast.Event
		want string
	}{
		{holdfast.Event{Type: holdfast.EventRenew, Leased: true, Err: gone}, "[not_owner]"},
		{holdfast.Event{Type: holdfast.EventRenew, Leased: true, Err: gone, Late: true}, "[late]"},
		{holdfast.Event{Type: holdfast.EventRenew, Leased: true}, "[ok]"},
		{holdfast.Event{Type: holdfast.EventRenew, Leased: true, Err: errors.New("no answer")}, "[error]"},
		{holdfast.Event{Type: holdfast.EventCall, Op: holdfast.OpTry, Err: gone}, "[try ok]"},
		{holdfast.Event{Type: holdfast.EventCall, Op: "of a later version", Err: errors.New("no answer")}, "[other error]"},
		{holdfast.Event{Type: holdfast.EventIndeterminate, Op: "of a later version", Resolved: true}, "[other yes]"},
		{holdfast.Event{Type: holdfast.EventWake}, "[poll]"},
		{holdfast.Event{Type: "of a later version"}, ""},
	} {
		got := ""
		meter.New(nil, nil).Observe(t.Context(), c.e, func(_ meter.Metric, _ float64, labels ...string) { got += fmt.Sprint(labels) })
		if got != c.want {
			t.Errorf("%+v: got %s, want %s", c.e, got, c.want)
		}
	}
}

func TestInstruments(t *testing.T) {
	for _, i := range meter.Instruments() {
		bounds := i.Bounds
		if i.Name == "" || i.Help == "" || len(i.Labels) == 0 || (len(bounds) > 0) != (i.Kind == meter.Histogram) {
			t.Errorf("%+v: something is missing", i)
		}
		if len(bounds) > 0 && bounds[0] <= 0 || !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) {
			t.Errorf("%s: %v do not ascend from above 0", i.Name, bounds)
		}
	}
}
