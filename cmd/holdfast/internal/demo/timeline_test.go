package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
)

// at returns a moment of a story, in seconds after its beginning.
func at(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// story is a timeline with two processes that ask for the lock at the moment 0.
type story struct {
	*timeline
	one, two *run
}

func newStory() story {
	s := story{newTimeline(), &run{instance: 1, name: "note 1"}, &run{instance: 2, name: "note 2"}}
	s.begin(s.one, 101, at(0))
	s.begin(s.two, 102, at(0))
	return s
}

// holds adds what the store says: one of the instances holds the lock until a moment.
func (s story) holds(instance int, now, until float64) {
	s.sample(sample{at: at(now), owner: fmt.Sprint("owner ", instance), note: fmt.Sprint("note ", instance), pid: 100 + instance, until: at(until)})
}

// takeOver is the story of a paused holder until the moment `end`: both start, the holder is
// paused, its lease ends, the other one gets the lock, the first one is resumed, and its write
// is refused.
func takeOver(end float64) story {
	s := newStory()
	for _, step := range []struct {
		at   float64
		does func(now time.Time)
	}{
		{0.1, func(now time.Time) { s.note(s.one, held, 7, now); s.note(s.one, wrote, 7, now) }},
		{0.2, func(time.Time) { s.holds(1, 0.2, 5.1) }},
		{2, func(time.Time) { s.holds(1, 2, 6.8) }},
		{3, func(now time.Time) { s.note(s.one, paused, 0, now) }},
		{6.5, func(time.Time) { s.holds(1, 6.5, 6.8) }},
		{6.9, func(now time.Time) { s.note(s.two, held, 8, now); s.note(s.two, wrote, 8, now) }},
		{7, func(time.Time) { s.holds(2, 7, 11.9) }},
		{9, func(now time.Time) { s.note(s.one, resumed, 0, now) }},
		{9.2, func(now time.Time) { s.note(s.one, lost, 0, now) }},
		{9.3, func(now time.Time) { s.note(s.one, refused, 8, now) }},
		{9.4, func(now time.Time) { s.note(s.one, gone, 0, now) }},
		{9.5, func(time.Time) {
			s.judge(1, verdictOf(&claimResult{Instance: "instance 1", Outcome: outcomeLost, Token: 7, Write: refused}))
		}},
	} {
		if step.at <= end {
			step.does(at(step.at))
		}
	}
	return s
}

func (s story) recorded(now float64) recorded { return s.copied(at(now)) }

// inWords returns the segments of all processes of an instance.
func inWords(rec recorded, instance int) (all []string) {
	for _, r := range rec.runs {
		if r.instance != instance {
			continue
		}
		for _, g := range r.segments(rec.edge) {
			all = append(all, fmt.Sprintf("%.1f–%.1f %s", g.from.Sub(at(0)).Seconds(), g.to.Sub(at(0)).Seconds(), g.state.label()[0]))
		}
	}
	return all
}

func TestSegmentsOfAPausedHolder(t *testing.T) {
	rec := takeOver(10).recorded(10)
	for instance, want := range map[int][]string{
		1: {"0.0–0.1 waits", "0.1–3.0 holds the lock", "3.0–6.8 holds, but is paused", "6.8–9.0 paused, lease over", "9.0–9.2 works without the lock", "9.2–9.4 lock lost"},
		2: {"0.0–6.9 waits", "6.9–10.0 holds the lock"},
	} {
		if got := inWords(rec, instance); !slices.Equal(got, want) {
			t.Errorf("instance %d: got\n%s\nwant\n%s", instance, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	// While the process is paused, the picture does not say more than is known then.
	if got, want := inWords(takeOver(6.5).recorded(6.7), 1), "3.0–6.7 holds, but is paused"; got[len(got)-1] != want {
		t.Errorf("before the end of the lease: got %q, want %q at the end", got, want)
	}
	if got := inWords(takeOver(6.5).recorded(6.95), 1); strings.Contains(strings.Join(got, " "), "over") {
		t.Errorf("the store has not said that the lease is over: got %q", got)
	}
}

func TestSegmentsOfOtherStories(t *testing.T) {
	for name, c := range map[string]struct {
		tell func(s story)
		want []string
	}{
		"released": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.hear(s.one, message{Kind: unlocked}, at(4))
			s.sample(sample{at: at(4)})
			s.note(s.one, gone, 0, at(4.1))
		}, []string{"0.0–1.0 waits", "1.0–4.0 holds the lock"}},
		"the store knows of the release before the demo": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.sample(sample{at: at(4)})
			s.hear(s.one, message{Kind: unlocked}, at(4.1))
		}, []string{"0.0–1.0 waits", "1.0–4.1 holds the lock"}},
		"killed": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.note(s.one, killed, 0, at(2))
			s.note(s.one, gone, 0, at(2.1))
			s.sample(sample{at: at(6.1)})
		}, []string{"0.0–1.0 waits", "1.0–2.0 holds the lock"}},
		"cut off: its own clock is earlier than that of the store": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.note(s.one, cutOff, 0, at(2))
			s.note(s.one, lost, 0, at(5.5))
			s.sample(sample{at: at(6.1)})
			s.note(s.one, connected, 0, at(7))
			s.note(s.one, wrote, 7, at(7.1))
			s.hear(s.one, message{Kind: unlocked, Text: "lost"}, at(7.2))
		}, []string{"0.0–1.0 waits", "1.0–2.0 holds the lock", "2.0–5.5 holds, but is cut off", "5.5–7.0 cut off, lock lost", "7.0–7.2 lock lost"}},
		"forced while it is paused": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.note(s.one, paused, 0, at(2))
			s.sample(sample{at: at(3)})
			s.note(s.one, killed, 0, at(4))
		}, []string{"0.0–1.0 waits", "1.0–2.0 holds the lock", "2.0–3.0 holds, but is paused", "3.0–4.0 paused, lease over"}},
		"the store does not answer": {func(s story) {
			s.note(s.one, held, 7, at(1))
			s.holds(1, 1, 6)
			s.note(s.one, paused, 0, at(2))
			s.sample(sample{at: at(7), failed: true})
			s.note(s.one, killed, 0, at(8))
		}, []string{"0.0–1.0 waits", "1.0–2.0 holds the lock", "2.0–8.0 holds, but is paused"}},
		"paused and cut off while it waits": {func(s story) {
			s.note(s.one, paused, 0, at(1))
			s.note(s.one, paused, 0, at(1.5)) // changes nothing
			s.note(s.one, resumed, 0, at(2))
			s.note(s.one, cutOff, 0, at(3))
			s.note(s.one, failed, 0, at(4))
			s.note(s.one, held, 9, at(5)) // after its end
		}, []string{"0.0–1.0 waits", "1.0–2.0 waits, paused", "2.0–3.0 waits", "3.0–4.0 waits, cut off"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			c.tell(s)
			if got := inWords(s.recorded(20), 1); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestHolds(t *testing.T) {
	s := takeOver(10)
	s.sample(sample{at: at(10.2), failed: true})
	s.sample(sample{at: at(10.4)})
	s.holds(1, 11, 16)
	s.sample(sample{at: at(12)})
	all := holdsOf(s.recorded(12).samples, 5*time.Second)
	var got []string
	for _, h := range all {
		text := fmt.Sprintf("%s %.1f–%.1f", h.owner, h.from.Sub(at(0)).Seconds(), h.to.Sub(at(0)).Seconds())
		for _, r := range h.renewals {
			text += fmt.Sprintf(" %.1f→%.1f", r.at.Sub(at(0)).Seconds(), r.until.Sub(at(0)).Seconds())
		}
		got = append(got, fmt.Sprintf("%s ran out %t", text, h.ranOut))
	}
	want := []string{
		"owner 1 0.2–6.8 0.2→5.1 1.8→6.8 ran out true",
		"owner 2 7.0–10.2 7.0→11.9 ran out false",
		" 10.2–10.4 10.2→" + fmt.Sprintf("%.1f", time.Time{}.Sub(at(0)).Seconds()) + " ran out false",
		"owner 1 11.0–12.0 11.0→16.0 ran out false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	open := holdsOf(takeOver(7).recorded(8).samples, 5*time.Second)
	if last := open[len(open)-1]; !last.to.IsZero() || !last.projected.Equal(at(11.9)) {
		t.Errorf("the present hold: got %+v", last)
	}
}

// What happened before stays until something new begins.
func TestANewStoryBeginsAgain(t *testing.T) {
	s := newStory()
	s.note(s.one, held, 7, at(1))
	s.holds(1, 1, 6)
	s.note(s.two, killed, 0, at(1))
	s.judge(2, verdict{Text: "killed"})
	s.note(s.one, unlocked, 0, at(4))
	if rec := s.recorded(5); rec.still || !rec.edge.Equal(at(5)) {
		t.Errorf("the store still has the lock: got still %t at %v", rec.still, rec.edge)
	}
	s.sample(sample{at: at(6)})
	if rec := s.recorded(100); !rec.still || !rec.edge.Equal(at(6).Add(afterLast)) || len(rec.runs) != 2 {
		t.Errorf("after the end: got still %t at %v with %d processes", rec.still, rec.edge, len(rec.runs))
	}
	if s.wanted(at(100)) {
		t.Error("nobody looks, and nothing runs: samples are wanted nevertheless")
	}
	s.look(at(100))
	if !s.wanted(at(101)) || s.wanted(at(100).Add(watchedFor)) {
		t.Error("samples are wanted for a while after somebody has looked")
	}
	s.begin(&run{instance: 2}, 103, at(101))
	if rec := s.recorded(101); !rec.began.Equal(at(101)) || len(rec.runs) != 1 || rec.verdicts[1] != (verdict{}) || rec.still {
		t.Errorf("a new story: got %+v", rec)
	}
}

// The verdict on a request stays until the instance starts again.
func TestAStartEndsTheVerdict(t *testing.T) {
	s := takeOver(10)
	s.begin(&run{instance: 2}, 103, at(11))
	if got := s.recorded(11).verdicts[0].Badge; got != badgeRefused {
		t.Errorf("the other instance has started: got %q, want %q", got, badgeRefused)
	}
	s.begin(&run{instance: 1}, 104, at(12))
	if got := s.recorded(12).verdicts[0]; got != (verdict{}) {
		t.Errorf("the instance has started: got %+v", got)
	}
}

// A process of another machine can have the same number.
func TestHolderOfAnotherMachine(t *testing.T) {
	s := newStory()
	s.sample(sample{at: at(1), owner: "x", note: "note 1", pid: 101, until: at(6)})
	if got := s.recorded(1).holding(); got == nil || got.instance != 1 {
		t.Errorf("the own process: got %+v", got)
	}
	s.sample(sample{at: at(2), owner: "y", note: "another note", pid: 101, until: at(7)})
	if got := s.recorded(2).holding(); got != nil {
		t.Errorf("another process: got %+v", got)
	}
}

// A program that is not of this demo can hold the lock too.
func TestAnotherProgramHolds(t *testing.T) {
	line := newTimeline()
	line.sample(sample{at: at(0)})
	line.sample(sample{at: at(1), owner: "x", note: "instance 1 of 127.0.0.1:7072", pid: 9, until: at(6)})
	st := stageOf(line.copied(at(2)), pageLease, true)
	if want := "instance 1 of 127.0.0.1:7072"; st.Lock.Holder != want || st.Headline != want+" holds the lock." || st.Still {
		t.Errorf("got holder %q, %q, still %t", st.Lock.Holder, st.Headline, st.Still)
	}
}

func TestTimelineIsBounded(t *testing.T) {
	s := newStory()
	s.note(s.one, held, 7, at(1))
	for n := range 10 * mostEvents {
		s.note(s.one, [2]kind{paused, resumed}[n%2], 0, at(2+float64(n)))
	}
	if len(s.one.events) != mostEvents {
		t.Errorf("got %d events, want %d", len(s.one.events), mostEvents)
	}
	if now := s.one.now(); now.phase != holds || now.token != 7 || now.paused {
		t.Errorf("events were forgotten, and their result too: got %+v", now)
	}
	for n := range 3 * mostRuns {
		r := &run{instance: 2}
		s.begin(r, 200+n, at(1000))
		s.note(r, killed, 0, at(1001))
	}
	rec := s.recorded(1002)
	if len(rec.runs) != mostRuns || rec.runs[0].pid != 101 || rec.runs[1].pid != 102 {
		t.Errorf("got %d processes, the first %d and %d; want %d, and those that run first", len(rec.runs), rec.runs[0].pid, rec.runs[1].pid, mostRuns)
	}
	for range 3 * mostSamples {
		s.sample(sample{at: at(1003), owner: "x", until: at(1008)})
	}
	if len(s.samples) != mostSamples {
		t.Errorf("got %d samples, want %d", len(s.samples), mostSamples)
	}
}

func TestSampleOf(t *testing.T) {
	free := admin.Record{Name: pageLock}
	kept := admin.Record{Kind: admin.KindMutex, Holds: []admin.Hold{{}}}
	taken := admin.Record{Kind: admin.KindMutex, Holders: 1, Holds: []admin.Hold{{
		Holder: admin.Holder{Owner: "o", Note: "n", Remaining: 3 * time.Second}, Client: admin.Client{PID: 5},
	}}}
	for name, c := range map[string]struct {
		records []admin.Record
		err     error
		want    sample
	}{
		"free":      {[]admin.Record{free}, nil, sample{at: at(1)}},
		"kept":      {[]admin.Record{kept}, nil, sample{at: at(1)}},
		"taken":     {[]admin.Record{taken}, nil, sample{at: at(1), owner: "o", note: "n", pid: 5, until: at(4)}},
		"no answer": {nil, errors.New("down"), sample{at: at(1), failed: true}},
	} {
		if got := sampleOf(c.records, c.err, at(1)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
