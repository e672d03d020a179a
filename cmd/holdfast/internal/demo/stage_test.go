package demo

import (
	"bytes"
	"html/template"
	"slices"
	"strings"
	"testing"
	"time"
)

// doing returns what the buttons do that are offered for an instance. A prominent button has a
// star.
func doing(st stage, instance int) (all []string) {
	for _, c := range st.Actors[instance-1].Controls {
		name := c.Do
		if c.Strong {
			name += "*"
		}
		all = append(all, name)
	}
	return all
}

func (s story) stage(now float64) stage { return stageOf(s.recorded(now), pageLease, true) }

func TestButtonsInEachState(t *testing.T) {
	for _, c := range []struct {
		name     string
		stage    stage
		one, two []string
		allRun   bool
	}{
		{"at rest", stageOf(newTimeline().copied(at(0)), pageLease, true), nil, nil, false},
		{"both wait", newStory().stage(0), []string{"pause", "kill", "cut"}, []string{"pause", "kill", "cut"}, true},
		{"one holds", takeOver(2).stage(2.5), []string{"pause*", "kill*", "cut*"}, []string{"pause", "kill", "cut"}, true},
		{"the holder is paused", takeOver(3).stage(3), []string{"resume*", "kill", "cut"}, []string{"pause", "kill", "cut"}, true},
		{"the other one holds", takeOver(7).stage(8), []string{"resume*", "kill", "cut"}, []string{"pause*", "kill*", "cut*"}, true},
		{"the first one has ended", takeOver(10).stage(10), nil, []string{"pause*", "kill*", "cut*"}, false},
		{"this system cannot pause", stageOf(takeOver(2).recorded(2.5), pageLease, false), []string{"kill*", "cut*"}, []string{"kill", "cut"}, true},
	} {
		if one, two := doing(c.stage, 1), doing(c.stage, 2); !slices.Equal(one, c.one) || !slices.Equal(two, c.two) || c.stage.AllRun != c.allRun {
			t.Errorf("%s: got %q, %q and %t, want %q, %q and %t", c.name, one, two, c.stage.AllRun, c.one, c.two, c.allRun)
		}
	}
	s := takeOver(2)
	s.note(s.one, cutOff, 0, at(3))
	if got, want := doing(s.stage(3), 1), []string{"pause", "kill", "mend*"}; !slices.Equal(got, want) {
		t.Errorf("cut off: got %q, want %q", got, want)
	}
}

func TestHeadlines(t *testing.T) {
	cut := takeOver(2)
	cut.note(cut.one, cutOff, 0, at(3))
	noticed := takeOver(2)
	noticed.note(noticed.one, cutOff, 0, at(3))
	noticed.note(noticed.one, lost, 0, at(6))
	noticed.holds(2, 7, 12)
	dead := takeOver(2)
	dead.note(dead.one, killed, 0, at(3))
	silent := takeOver(2)
	silent.sample(sample{at: at(3), failed: true})
	over := takeOver(10)
	over.note(over.two, unlocked, 0, at(11))
	over.sample(sample{at: at(11)})
	for _, c := range []struct {
		stage stage
		want  string
	}{
		{stageOf(newTimeline().copied(at(0)), pageLease, true), "Nobody holds the lock."},
		{newStory().stage(0), "Nobody holds the lock. Instance 1 waits. Instance 2 waits."},
		{takeOver(2).stage(2.5), "Instance 1 holds the lock and works. Instance 2 waits."},
		{takeOver(3).stage(3), "Instance 1 holds the lock, but is paused: it cannot renew the lease. Instance 2 waits."},
		{takeOver(7).stage(8), "Instance 2 holds the lock and works. Instance 1 is paused: it does not know that its lease is over."},
		{takeOver(9).stage(9.1), "Instance 2 holds the lock and works. Instance 1 works without the lock: it does not know yet that its lease is over."},
		{takeOver(9.2).stage(9.2), "Instance 2 holds the lock and works. Instance 1 has noticed that it lost the lock."},
		{takeOver(10).stage(10), "Instance 2 holds the lock and works. The ledger has refused the late write of instance 1."},
		{over.stage(12), "Nobody holds the lock. The ledger has refused the late write of instance 1."},
		{cut.stage(3), "Instance 1 holds the lock, but is cut off: it cannot renew the lease. Instance 2 waits."},
		{noticed.stage(7), "Instance 2 holds the lock and works. Instance 1 is cut off, and knows that it has lost the lock."},
		{dead.stage(3), "Instance 1 is dead, but has the lock until its lease ends. Instance 2 waits."},
		{silent.stage(3), "Redis does not answer. Instance 2 waits."},
	} {
		if c.stage.Headline != c.want {
			t.Errorf("got  %s\nwant %s", c.stage.Headline, c.want)
		}
	}
}

func TestSteps(t *testing.T) {
	var got []string
	for _, s := range takeOver(10).stage(10).Steps {
		got = append(got, strings.TrimSpace(s.At+" "+s.Look)+": "+s.Text)
	}
	want := []string{
		"9.3 s danger: The ledger refuses the write of instance 1: it has seen the larger token 8.",
		"9.2 s danger: Instance 1 notices that it has lost the lock. It writes nevertheless.",
		"9.0 s: Instance 1 goes on.",
		"6.9 s good: Instance 2 gets the lock, with token 8.",
		"6.9 s good: The ledger accepts the write of instance 2.",
		"6.8 s warning: The lease of instance 1 ends in Redis.",
		"3.0 s warning: Instance 1 is paused. It cannot renew its lease.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The picture first fills from the left, then shows more time, and then moves.
func TestAxis(t *testing.T) {
	for _, c := range []struct {
		passed, whole time.Duration
		left          float64
		now           string
	}{
		{0, 30 * time.Second, 0, "0.00%"},
		{12 * time.Second, 30 * time.Second, 0, "40.00%"},
		{24 * time.Second, 30 * time.Second, 0, "80.00%"},
		{34 * time.Second, 40 * time.Second, 0, "85.00%"},
		{54 * time.Second, time.Minute, 0, "90.00%"},
		{94 * time.Second, time.Minute, 40, "90.00%"},
	} {
		a := axisOf(recorded{began: at(0), edge: at(0).Add(c.passed)}, pageLease)
		if a.whole != c.whole || !a.left.Equal(at(c.left)) || a.Now() != c.now {
			t.Errorf("after %v: got %v from %v, now at %s; want %v from %v s, now at %s", c.passed, a.whole, a.left.Sub(at(0)), a.Now(), c.whole, c.left, c.now)
		}
	}
}

func TestPicture(t *testing.T) {
	st := takeOver(10).stage(12)
	one := st.Actors[0].Lane
	var got []string
	for _, b := range one.Blocks {
		got = append(got, strings.Join([]string{b.X, b.Width, b.Look, b.Texts[0], b.Texts[1], b.Texts[2]}, " "))
	}
	want := []string{
		"0.00% 0.33% waits   ", "0.33% 9.67% holds holds holds ", "10.00% 12.67% stuck paused paused ",
		"22.67% 7.33% over over  ", "30.00% 0.67% over   ", "30.67% 0.67% over   ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = nil
	for _, m := range one.Marks {
		got = append(got, m.X+" "+m.Texts[0].Text+" "+m.Look)
	}
	want = []string{"0.33% ▾ granted good", "30.67% ! notices the loss bad", "0.33% ✓ write accepted good", "31.00% ✕ write refused bad"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "process 101 paused, lease over, from 6.8 s to 9.0 s"; !strings.Contains(one.Text, want) || one.Blocks[3].Title != want {
		t.Errorf("got %q and %q, want %q", one.Text, one.Blocks[3].Title, want)
	}
	holds := st.Lock.Lane.Holds
	if len(holds) != 2 || holds[0].End != "22.67%" || holds[1].End != "" || holds[0].Title != "instance 1, from 0.2 s to 6.8 s, when the lease ran out" {
		t.Fatalf("got %+v", holds)
	}
	// The lease falls to 0 at the end of the first hold, and after the present moment in the second.
	for n, want := range []string{"6.7,100.0 6.7,2.0 60.0,34.0 60.0,0.0 226.7,100.0 226.7,100.0", "233.3,100.0 233.3,2.0 396.7,100.0 396.7,100.0"} {
		if holds[n].Points != want {
			t.Errorf("hold %d: got %q, want %q", n+1, holds[n].Points, want)
		}
	}
	if st.Lock.Holder != "instance 2" || st.Lock.Left != 0 || st.Lock.LeftText() != "0s" {
		t.Errorf("the present lease: got %+v", st.Lock)
	}
}

// What was long ago is not in the picture, and processes at the same time do not cover each
// other.
func TestRowsOfALane(t *testing.T) {
	s := newStory()
	s.note(s.one, killed, 0, at(5))
	later, third := &run{instance: 1}, &run{instance: 1}
	s.begin(later, 103, at(3))
	s.begin(third, 104, at(6))
	rec := s.recorded(10)
	l := laneOf(rec, axisOf(rec, pageLease), 1)
	var rows []int
	for _, b := range l.Blocks {
		rows = append(rows, b.Y/rowHeight)
	}
	if want := []int{0, 1, 0}; !slices.Equal(rows, want) || l.Height != 2*rowHeight {
		t.Errorf("got rows %v and height %d, want %v", rows, l.Height, want)
	}
	s.note(third, killed, 0, at(7))
	rec = s.recorded(200)
	if l = laneOf(rec, axisOf(rec, pageLease), 1); len(l.Blocks) != 1 || l.Blocks[0].X != "0.00%" || l.Height != rowHeight {
		t.Errorf("later: got %+v and height %d, want the process that still runs alone", l.Blocks, l.Height)
	}
}

func TestTextsOfMarks(t *testing.T) {
	for _, c := range []struct {
		x, free, next float64
		want          markText
	}{
		{0, 0, 100, markText{Text: "! lost it"}},
		{50, 49, 57, markText{Text: "! lost it"}},
		{50, 49, 56, markText{Text: "! lost"}},
		{50, 49, 53, markText{Text: "!"}},
		{97, 50, 100, markText{Text: "lost it !", Ahead: true}},
		{50, 51, 100, markText{Text: "!"}},
		{99, 98, 100, markText{Text: "!", Ahead: true}},
	} {
		m := mark{Sign: "!", x: c.x, texts: []string{"lost it", "lost"}}
		if got, end := m.place(c.free, c.next, 1000); got != c.want || end < c.free || end > max(c.next, c.x+1) {
			t.Errorf("at %v, between %v and %v: got %+v to %v, want %+v", c.x, c.free, c.next, got, end, c.want)
		}
	}
}

func TestTokensShowWhereTheyDiffer(t *testing.T) {
	s := newStory()
	s.note(s.one, held, 1796029364805563, at(1))
	if head, end := s.recorded(1).token(1796029364805563); head != "" || end != "1796029364805563" {
		t.Errorf("one token: got %q, %q", head, end)
	}
	s.note(s.two, held, 1796029372796622, at(2))
	if head, end := s.recorded(2).token(1796029372796622); head != "17960293" || end != "72796622" {
		t.Errorf("two tokens: got %q, %q", head, end)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		result claimResult
		badge  string
		look   string
	}{
		{claimResult{Outcome: outcomeDone}, badgeDone, "good"},
		{claimResult{Outcome: outcomeLost, Write: refused}, badgeRefused, "warning"},
		{claimResult{Outcome: outcomeLost, Write: wrote}, badgeAccepted, "warning"},
		{claimResult{Outcome: outcomeLost}, "lost", "danger"},
		{claimResult{Outcome: outcomeKilled}, "killed", "danger"},
		{claimResult{Outcome: outcomeFailed}, "failed", "danger"},
	} {
		c.result.Instance = "instance 1"
		if v := verdictOf(&c.result); v.Badge != c.badge || v.Look != c.look || !strings.HasPrefix(v.Text, "Instance 1 ") {
			t.Errorf("got %+v, want %q and %q", v, c.badge, c.look)
		}
	}
}

func TestSalesSideBySide(t *testing.T) {
	s := &site{}
	s.results.Store(actionSale(false), sale{outcome: outcome{Buyers: 60, Items: 10, Sold: 40}, Over: true})
	s.results.Store(actionSale(true), sale{outcome: outcome{Buyers: 60, Items: 10, Sold: 10}, Locked: true, Over: true})
	without, with := s.Sales()[0], s.Sales()[1]
	if without.Verdict != "30 sold too many" || without.Look != "danger" || without.Within != "25.00%" || without.Extra != "75.00%" || without.ExtraAt != "25.00%" {
		t.Errorf("without a lock: got %+v", without)
	}
	if with.Verdict != "exact" || with.Look != "good" || with.Within != "25.00%" || with.Extra != "0.00%" || with.ItemsAt != "25.00%" {
		t.Errorf("with a lock: got %+v", with)
	}
	s.results.Store(actionSale(false), underWay{})
	s.results.Store(actionSale(true), sale{outcome: outcome{Buyers: 3, Items: 10, Sold: 2}})
	if v := s.Sales(); !v[0].Running || v[0].Done || v[1].Verdict != "1 item not sold" {
		t.Errorf("got %+v", v)
	}
	s.results.Store(actionSale(true), sale{Error: "no Redis"})
	if v := s.Sales()[1]; v.Done || v.Problem != "no Redis" {
		t.Errorf("got %+v", v)
	}
}

func TestRaceShowsTheServers(t *testing.T) {
	s := &site{Servers: make(servers, 3)}
	if v := s.Race(); len(v.Rows) != racers || len(v.Rows[0].Votes) != 3 || v.Done || v.Rows[0].Result != "" {
		t.Errorf("before the first race: got %+v", v)
	}
	s.results.Store(actionRace, &race{Overlaps: 1, Workers: []raceEntry{
		{Name: "worker 3", Place: 1, Waited: 7, Votes: []string{"granted", "failed", "granted"}},
		{Name: "worker 1", Error: "no majority", Votes: []string{"refused", "failed", "failed"}},
	}})
	v := s.Race()
	if v.Verdict != "Two workers at the same time: 1 time." || v.Look != "danger" || !v.Done || len(v.Rows) != 2 {
		t.Fatalf("got %+v", v)
	}
	if r := v.Rows[0]; r.Place != 1 || r.Result != "after 7 ms, granted by 2 of 3" || r.Votes[1] != (vote{"danger", "✕", "failed"}) || r.Votes[2] != (vote{"good", "✓", "granted"}) {
		t.Errorf("got %+v", r)
	}
	if r := v.Rows[1]; r.Result != "no lock: no majority" || r.Look != "danger" || r.Votes[0] != (vote{"warning", "–", "refused"}) {
		t.Errorf("got %+v", r)
	}
}

// The page has each state, without a style or a script inside.
func TestStageAsHTML(t *testing.T) {
	functions := template.FuncMap{"next": func(n int) int { return n + 1 }, "locks": func() template.HTML { return "" }}
	page := template.Must(template.New("demo.html").Funcs(functions).ParseFS(pageFiles, "page/*.html"))
	render := func(st stage) string {
		t.Helper()
		var b bytes.Buffer
		if err := page.ExecuteTemplate(&b, "stage", sceneData{Stage: st, Work: "20s"}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	silent := takeOver(7)
	silent.sample(sample{at: at(8), failed: true})
	for _, c := range []struct {
		stage    stage
		has, not []string
	}{
		{stageOf(newTimeline().copied(at(0)), pageLease, true), []string{`action="both"`, `id="startboth">`, `formaction="lock1"`, "nobody holds it", "data-still", "What to try"}, []string{`action="instance"`, "aria-disabled"}},
		{takeOver(3).stage(4), []string{`id="resume1"`, `id="pause2"`, `aria-disabled="true" aria-describedby="allrun"`, `id="allrun">Both instances run already.`, "What happened", `url(#hatch-stuck)`, "holds, but is paused</span>"}, []string{`id="pause1"`, `id="resume2"`, `id="mend1"`, "formaction", "data-still", "What to try"}},
		{takeOver(10).stage(10), []string{`formaction="lock1"`, `id="pause2"`, `<span class="badge warning">late write refused</span>`, ">lease over<", `url(#hatch-over)`}, []string{`id="pause1"`, `id="kill1"`, "aria-disabled"}},
		{silent.stage(9), []string{"no answer</span>", `class="silent"`, "<title>no answer, from 8.0 s until now</title>"}, []string{"of the lease left"}},
	} {
		text := render(c.stage)
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q:\n%s", want, text)
			}
		}
		for _, unwanted := range append(c.not, "style=", "<script", "ZgotmplZ", "<style") {
			if strings.Contains(text, unwanted) {
				t.Errorf("the page has %q:\n%s", unwanted, text)
			}
		}
	}
}
