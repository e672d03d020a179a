package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// table prints records for people.
func (l *lister) table(records []admin.Record) error {
	if len(records) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	header := "NAME\tKIND\tHOLDER\tCOUNT\tHELD\tLEASE\tWAITERS"
	if l.wide {
		header += "\tTOKEN\tOWNER"
	}
	_, _ = fmt.Fprintln(w, header) // Flush returns the error
	width := 0
	if !l.wide && isTerminal(l.env.stdout) {
		width = 48
	}
	for _, r := range records {
		l.rows(w, r, width)
	}
	return w.Flush()
}

func (l *lister) rows(w io.Writer, r admin.Record, width int) {
	row := func(name, holder, count, held, lease string, wide ...string) {
		cells := []string{name, kindOf(r), holder, count, held, lease, waitersOf(r)}
		if l.wide {
			cells = append(cells, wide...)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	name, holder := clean(r.Name), people(r)
	if width > 0 {
		name, holder = cut(name, width), cut(holder, width+16)
	}
	if !l.wide || len(r.Holds) == 0 {
		row(name, cmp.Or(holder, "-"), countOf(r), heldText(r.Holds), leaseText(lease(r)), "-", "-")
		return
	}
	for i, h := range r.Holds {
		token := "-"
		if h.Token != 0 {
			token = strconv.FormatUint(h.Token, 10)
		}
		row(name, person(h.Owner, h.Note, h.Client), strconv.Itoa(h.Holds), heldText(r.Holds[i:i+1]), leaseText(h.Remaining), token, clean(h.Owner))
	}
}

// heldText says for how long the first of holds has lasted, "-" if that is not
// known.
func heldText(holds []admin.Hold) string {
	if len(holds) == 0 || holds[0].HeldFor < time.Second {
		return "-"
	}
	return coarse(holds[0].HeldFor).String()
}

// kindOf is the kind, with the side of a read-write lock that is held.
func kindOf(r admin.Record) string {
	if r.Kind == admin.KindReadWrite && len(r.Holds) > 0 {
		if r.Holds[0].Mode == driver.Shared {
			return "read"
		}
		return "write"
	}
	return string(r.Kind)
}

// countOf is how often a lock is held, or what else there is to count.
func countOf(r admin.Record) string {
	switch {
	case r.Kind == admin.KindSemaphore && r.Permits == 0:
		return fmt.Sprintf("%d of ?", r.Holders)
	case r.Kind == admin.KindSemaphore:
		return fmt.Sprintf("%d of %d", r.Holders, r.Permits)
	case r.Kind == admin.KindCounter, r.Kind == admin.KindLatch:
		return strconv.FormatInt(r.Count, 10)
	case len(r.Holds) == 1:
		return strconv.Itoa(r.Holds[0].Holds)
	default:
		return strconv.Itoa(r.Holders)
	}
}

// leaseText is a lease for people.
func leaseText(d time.Duration) string {
	switch {
	case d == admin.RemainingUnknown:
		return "unknown"
	case d < 0:
		return "forever"
	}
	return coarse(d).String()
}

// waitersOf says how many wait: those in a queue are known, others only by the
// processes that listen.
func waitersOf(r admin.Record) string {
	switch {
	case r.Waiting > 0:
		return strconv.Itoa(r.Waiting)
	case r.Listeners > 0:
		return "~" + strconv.Itoa(r.Listeners)
	case r.Listeners < 0:
		return "?"
	default:
		return "0"
	}
}
