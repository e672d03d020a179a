package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/plural"
)

// Page is text for people. Each line has a name and a value.
type Page struct{ strings.Builder }

// Line adds a name and a value.
func (p *Page) Line(name, format string, args ...any) {
	fmt.Fprintf(p, "%-12s%s\n", name, fmt.Sprintf(format, args...))
}

// otherText says that a name has something that is not a lock.
func otherText(d admin.Detail) string {
	text := "in use for something that is not a lock"
	if len(d.Keys) > 0 && d.Keys[0].Type == "string" {
		text += " of this layout; with --layout plain a string is a lock"
	}
	return text
}

// DetailText returns the Detail of a lock for people.
func DetailText(d admin.Detail) string {
	var p Page
	p.Line("name", "%s", Clean(d.Name))
	switch d.Kind {
	case "":
		p.Line("state", "free")
	case admin.KindOther:
		p.Line("state", "%s", otherText(d))
	default:
		p.Line("kind", "%s", d.Kind)
		p.state(d)
	}
	p.Holds(d.Record)
	p.Waiters(d.Record)
	for _, wait := range d.Waits {
		p.Line("waiting", "%s", WaitText(wait))
	}
	if d.Listeners >= 0 {
		p.Line("listening", "%s", plural.Count(d.Listeners, "client"))
	}
	for _, k := range d.Keys { // the values were escaped by package admin
		p.Line("key", "%s (%s, %s)", Clean(k.Name), Clean(k.Type), LeaseText(k.Remaining))
		for line := range strings.Lines(k.Value) {
			p.Line("", "  %s", Clean(strings.TrimSuffix(line, "\n")))
		}
	}
	return p.String()
}

func (p *Page) state(d admin.Detail) {
	switch {
	case d.Kind == admin.KindSemaphore && d.Permits == 0:
		p.Line("permits", "unknown")
	case d.Kind == admin.KindSemaphore:
		p.Line("permits", "%d, %d of them free", d.Permits, d.Free)
	case d.Kind == admin.KindCounter, d.Kind == admin.KindLatch:
		p.Line("count", "%d", d.Count)
	}
	if d.Token > 0 {
		p.Line("token", "%d, the latest token of the lock", d.Token)
	}
	if d.Holders != 1 || len(d.Holds) != 1 {
		p.Line("holders", "%d", d.Holders)
	}
}

// Holds adds the holders of r.
func (p *Page) Holds(r admin.Record) {
	for _, h := range r.Holds {
		label := "held by"
		if h.Kept() {
			label = "state"
		}
		p.Line(label, "%s", holderOf(h))
		p.Line("  owner", "%s", Clean(h.Owner))
		if c := h.Client; c.Program != "" {
			process := fmt.Sprintf("%s on %s, pid %d", Clean(c.Program), Clean(c.Host), c.PID)
			if !c.Started.IsZero() {
				process += ", started " + c.Started.Local().Format(time.DateTime)
			}
			p.Line("  process", "%s", process)
		}
		if h.Mode != driver.Exclusive {
			p.Line("  mode", "%s", h.Mode)
		}
		if h.Token > 0 {
			p.Line("  token", "%d", h.Token)
		}
		if h.HeldFor > 0 {
			p.Line("  held for", "%s", Coarse(h.HeldFor))
		}
		p.Line("  count", "%d", h.Holds)
		p.Line("  lease", "%s", LeaseText(h.Remaining))
	}
	if more := r.Holders - len(r.Holds); more > 0 && len(r.Holds) > 0 {
		p.Line("", "and %s", plural.Count(more, "more holder"))
	}
	for _, h := range r.Unleased {
		p.Line("no lease", "%s: a reader that died, or the holder of another kind of lock of this name", holderOf(h))
		p.Line("  owner", "%s", Clean(h.Owner))
	}
}

// Waiters adds the waiters of r that have a place in the queue.
func (p *Page) Waiters(r admin.Record) {
	for i, w := range r.Waiters {
		p.Line("waiter "+strconv.Itoa(i+1), "%s, lease of its place: %s", Person(w.Owner, w.Note, w.Client), LeaseText(w.Remaining))
	}
	if more := r.Waiting - len(r.Waiters); more > 0 {
		p.Line("", "and %s", plural.Count(more, "more waiter"))
	}
}

// WaitText returns a text about a client that waits.
func WaitText(w admin.ClientWait) string {
	text := Person("", "", w.Client) + " for " + Coarse(w.Waited).String()
	if w.Count > 1 {
		text += ", " + plural.Count(w.Count, "goroutine")
	}
	if w.Mode == driver.Shared {
		text += ", to read"
	}
	return text
}
