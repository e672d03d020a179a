package demo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Sizes of the picture.
const (
	leastTime = 30 * time.Second // the time that the picture shows at first
	ahead     = time.Second      // the picture shows the lease, and this time, after the present moment
	letter    = 6.9              // px, the mean width of a letter
	rowHeight = 66               // px, of one process
)

// widths returns how wide the picture is at least, in px, on a wide screen, on a tablet and on a
// phone. The server does not know the screen. So each text has a form for each width, and the
// style sheet shows the one that fits.
func widths() [3]float64 { return [3]float64{750, 480, 296} }

// axis is the horizontal direction of the picture: time.
type axis struct {
	began, left, edge time.Time
	whole, future     time.Duration
}

// axisOf returns the axis of what is recorded. At first the present moment moves to the right.
// Then the picture shows more and more time, and at last the past leaves it on the left. The
// script of the page does the same between two answers of the server.
func axisOf(r recorded, lease time.Duration) axis {
	a := axis{began: r.began, edge: r.edge, future: lease + ahead}
	passed := r.edge.Sub(r.began)
	a.whole = min(max(passed+a.future, leastTime), shownTime)
	a.left = r.began.Add(max(0, passed+a.future-a.whole))
	return a
}

// percent returns the place of a moment, from 0 to 100.
func (a axis) percent(at time.Time) float64 { return min(max(a.raw(at), 0), 100) }

// raw returns the place of a moment, also outside of the picture.
func (a axis) raw(at time.Time) float64 { return 100 * at.Sub(a.left).Seconds() / a.whole.Seconds() }

// span returns the place and width of a time, as SVG attributes want them.
func (a axis) span(from, to time.Time) span {
	x := a.percent(from)
	return span{X: percent(x), Width: percent(max(a.percent(to)-x, 0.15)), x: x, width: a.percent(to) - x}
}

// seconds returns a moment for people.
func (a axis) seconds(at time.Time) string {
	return fmt.Sprintf("%.1f s", max(at.Sub(a.began).Seconds(), 0))
}

// Empty reports whether nothing has happened yet.
func (a axis) Empty() bool { return a.edge.Equal(a.began) }

// AtLeft reports whether the word "now" would not fit around the present moment.
func (a axis) AtLeft() bool { return a.percent(a.edge) < 4 }

// Now returns the place of the present moment.
func (a axis) Now() string { return percent(a.percent(a.edge)) }

// Passed, Whole and Future return the time since the beginning, the time that the picture
// shows, and the part of it after the present moment, in ms, for the script.
func (a axis) Passed() int64 { return a.edge.Sub(a.began).Milliseconds() }
func (a axis) Whole() int64  { return a.whole.Milliseconds() }
func (a axis) Future() int64 { return a.future.Milliseconds() }

// Ticks returns the moments that have a line, every ten seconds. A tick has no text where
// a phone has no room beside the word "now".
func (a axis) Ticks() (ticks []textAt) {
	const every = 10 * time.Second
	first := a.left.Sub(a.began).Truncate(every)
	for d := first; d <= a.left.Sub(a.began)+a.whole; d += every {
		at := a.began.Add(d)
		if at.Before(a.left) {
			continue
		}
		t := textAt{X: percent(a.percent(at)), Text: fmt.Sprintf("%d s", int(d.Seconds()))}
		before := a.raw(a.edge) - a.raw(at)
		if !a.Empty() && -6 < before && before < 14 || a.raw(at) > 91 {
			t.Text = ""
		}
		ticks = append(ticks, t)
	}
	return ticks
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", x) }

// span is a place on the axis, and a width.
type span struct {
	X, Width string
	x, width float64
}

// textAt is a text at a place on the axis.
type textAt struct{ X, Text string }

// block is a segment in the picture.
type block struct {
	span
	Y           int
	Look        string
	Paused, Cut bool
	Title       string
	Texts       [3]string // the texts that fit, for the widths; "" for none
}

// mark is an event in the picture.
type mark struct {
	X      string
	Y, End int // from the text to the bar
	Text   int // the height of the text
	Sign   string
	Look   string
	Title  string
	Texts  [3]markText // for the widths

	x     float64
	texts []string // forms of the text, the longest first
}

// markText is the text beside a mark. It ends at its mark instead of beginning there if it would
// not fit otherwise.
type markText struct {
	Text  string
	Ahead bool
}

// lane is the picture of one instance.
type lane struct {
	axis
	Height int
	Blocks []block
	Marks  []mark
	Text   string // the whole lane in words
}

// row is a part of a lane. Its processes do not run at the same time.
type row struct {
	until  time.Time // when its last process ended
	events []mark    // above the blocks, in the order of their places
	writes []mark    // below them
}

// laneOf draws the processes of an instance.
func laneOf(rec recorded, a axis, instance int) lane {
	l := lane{axis: a}
	var rows []row
	var words []string
	for _, r := range rec.runs {
		segments := r.segments(rec.edge)
		if r.instance != instance || len(segments) == 0 {
			continue
		}
		last := segments[len(segments)-1]
		if last.to.Before(a.left) {
			continue
		}
		n := slices.IndexFunc(rows, func(w row) bool { return !w.until.After(segments[0].from) })
		if n < 0 {
			n = len(rows)
			rows = append(rows, row{})
		}
		rows[n].until = last.to
		for _, s := range segments {
			if b := blockOf(a, r, s, n*rowHeight); !s.to.Before(a.left) {
				l.Blocks, words = append(l.Blocks, b), append(words, b.Title)
			}
		}
		rows[n].mark(a, r, n*rowHeight)
	}
	for _, w := range rows {
		label(w.events)
		label(w.writes)
		l.Marks = append(append(l.Marks, w.events...), w.writes...)
	}
	l.Height = max(len(rows), 1) * rowHeight
	if l.Text = fmt.Sprintf("Timeline of instance %d: %s.", instance, strings.Join(words, "; ")); len(words) == 0 {
		l.Text = fmt.Sprintf("Timeline of instance %d: no process has run.", instance)
	}
	return l
}

// blockOf draws one segment.
func blockOf(a axis, r *run, s segment, top int) block {
	until := "to " + a.seconds(s.to)
	if s.open {
		until = "until now"
	}
	labels := s.state.label()
	b := block{
		span: a.span(s.from, s.to), Y: top + 20, Look: s.state.look(), Paused: s.state.paused, Cut: s.state.cut,
		Title: fmt.Sprintf("process %d %s, from %s %s", r.pid, labels[0], a.seconds(s.from), until),
	}
	b.Texts = fitting(labels, b.width)
	if s.open { // the script moves the present moment, and needs more of the bar
		b.Width = percent(b.width + 100*ahead.Seconds()/a.whole.Seconds())
	}
	return b
}

// fitting returns for each width of the picture the first of some texts that fits into `share`
// percent of it, or "".
func fitting(texts []string, share float64) (fit [3]string) {
	for n, width := range widths() {
		place := slices.IndexFunc(texts, func(text string) bool { return float64(len(text))*letter+8 <= share*width/100 })
		if place >= 0 {
			fit[n] = texts[place]
		}
	}
	return fit
}

// mark adds the events of a process that a person must not miss.
func (w *row) mark(a axis, r *run, top int) {
	for _, e := range r.events {
		m, isWrite := markOf(e)
		if m.Sign == "" || e.at.Before(a.left) {
			continue
		}
		m.x = a.percent(e.at)
		m.X = percent(m.x)
		m.Title = fmt.Sprintf("process %d, at %s: %s", r.pid, a.seconds(e.at), m.Title)
		if isWrite {
			m.Y, m.End, m.Text = top+48, top+54, top+64
			w.writes = append(w.writes, m)
		} else {
			m.Y, m.End, m.Text = top+14, top+20, top+12
			w.events = append(w.events, m)
		}
	}
}

// markOf returns the mark of an event, without its place. It has no sign if the event has no
// mark.
func markOf(e event) (m mark, isWrite bool) {
	switch e.kind {
	case held:
		return mark{Sign: "▾", Look: "good", Title: fmt.Sprintf("granted, with token %d", e.token), texts: []string{"granted"}}, false
	case unlocked:
		return mark{Sign: "▴", Look: "good", Title: "released", texts: []string{"released"}}, false
	case lost:
		return mark{Sign: "!", Look: "bad", Title: "notices that it has lost the lock", texts: []string{"notices the loss", "lost"}}, false
	case killed:
		return mark{Sign: "✕", Look: "bad", Title: "killed", texts: []string{"killed"}}, false
	case failed, died:
		return mark{Sign: "✕", Look: "bad", Title: "failed", texts: []string{"failed"}}, false
	case wrote:
		return mark{Sign: "✓", Look: "good", Title: fmt.Sprintf("the ledger accepts its write, with token %d", e.token), texts: []string{"write accepted", "accepted"}}, true
	case refused:
		return mark{Sign: "✕", Look: "bad", Title: fmt.Sprintf("the ledger refuses its write, because it has seen token %d", e.token), texts: []string{"write refused", "refused"}}, true
	}
	return mark{}, false
}

// label sets the texts of the marks of one row, which are in the order of their places.
func label(row []mark) {
	for n, width := range widths() {
		free := 0.0 // up to where there is text
		for i := range row {
			next := 100.0
			if i+1 < len(row) {
				next = row[i+1].x
			}
			row[i].Texts[n], free = row[i].place(free, next, width)
		}
	}
}

// place returns the longest text of a mark that fits between the places `free` and `next`, in
// percent of a width. It also returns where the next text may begin. The text is only the sign
// if there is no room for more.
func (m *mark) place(free, next, width float64) (t markText, end float64) {
	for _, text := range m.texts {
		needs := 100 * (float64(len(text)+2)*letter + 4) / width
		switch {
		case m.x >= free && m.x+needs <= next:
			return markText{Text: m.Sign + " " + text}, m.x + needs
		case next == 100 && m.x-needs >= free:
			return markText{Text: text + " " + m.Sign, Ahead: true}, m.x + 1
		}
	}
	return markText{Text: m.Sign, Ahead: m.x > 97}, max(free, m.x+1)
}

// leaseLane is the picture of the lock in the store: how much of the lease is left.
type leaseLane struct {
	axis
	Holds []leaseArea
	Text  string // the whole lane in words
}

// leaseArea is a hold in the picture. Its points are in a box of 1000 to 100.
type leaseArea struct {
	span
	Look   string // "own" for an instance, "other", or "none" without an answer
	Points string // the rest of the lease; after the present moment: if nobody renews it
	Title  string
	Texts  [3]string // the names that fit, for the widths
	End    string    // where the lease has run out, or ""
}

// leaseLaneOf draws the holds of the lock.
func leaseLaneOf(rec recorded, a axis, lease time.Duration) leaseLane {
	l := leaseLane{axis: a}
	var words []string
	for _, h := range holdsOf(rec.samples, lease) {
		open := h.to.IsZero()
		to := h.to
		if open {
			to = rec.edge
		}
		if to.Before(a.left) || h.from.Before(rec.began.Add(-time.Second)) {
			continue
		}
		area := leaseArea{span: a.span(h.from, to), Look: "none"}
		until := "to " + a.seconds(to)
		if open {
			until = "until now"
		}
		name := "no answer"
		if !h.failed {
			area.Look, name = rec.holder(h.sample)
			area.Points = points(a, h, cmp.Or(h.to, h.projected), lease)
		}
		area.Title = fmt.Sprintf("%s, from %s %s", name, a.seconds(h.from), until)
		if h.ranOut {
			area.Title += ", when the lease ran out"
			area.End = percent(a.percent(h.to))
		}
		area.Texts = fitting([]string{name}, area.width)
		l.Holds, words = append(l.Holds, area), append(words, area.Title)
	}
	if l.Text = fmt.Sprintf("Timeline of the lock: %s.", strings.Join(words, "; ")); len(words) == 0 {
		l.Text = "Timeline of the lock: nobody has held it."
	}
	return l
}

// holder returns who holds the lock in a sample: the look of the area, and the name.
func (rec recorded) holder(s sample) (look, name string) {
	if r := holderIn(rec.runs, s); r != nil {
		return "own", fmt.Sprintf("instance %d", r.instance)
	}
	return "other", cmp.Or(s.note, "another program")
}

// points returns the outline of the rest of a lease until the moment `to`.
func points(a axis, h hold, to time.Time, lease time.Duration) string {
	var b strings.Builder
	at := func(t time.Time, left time.Duration) {
		y := 100 - 100*min(max(left.Seconds()/lease.Seconds(), 0), 1)
		fmt.Fprintf(&b, "%.1f,%.1f ", 10*a.raw(t), math.Round(10*y)/10)
	}
	at(h.from, 0)
	for i, r := range h.renewals {
		end := to
		if i+1 < len(h.renewals) {
			end = h.renewals[i+1].at
		}
		if end.Before(a.left) {
			continue
		}
		at(r.at, r.until.Sub(r.at))
		if end.After(r.until) { // nothing is left
			at(r.until, 0)
		}
		at(end, r.until.Sub(end))
	}
	at(to, 0)
	return strings.TrimSpace(b.String())
}
