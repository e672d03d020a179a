package output

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// Table returns the records as lines for a terminal with the given width. If width is 0, lines
// may have any width. If details is true, each holder has a line with its token and its owner.
func Table(records []admin.Record, details bool, width int) string {
	header := []string{"NAME", "KIND", "HOLDER", "COUNT", "HELD", "LEASE", "WAITERS"}
	if details {
		header = append(header, "TOKEN", "OWNER")
	}
	rows := [][]string{header}
	for _, r := range records {
		name, kind, waiters := Clean(r.Name), kindOf(r), waitersOf(r)
		if !details || len(r.Holds) == 0 {
			row := []string{name, kind, cmp.Or(People(r), "-"), countOf(r), heldText(r.Holds), LeaseText(Lease(r)), waiters, "-", "-"}
			rows = append(rows, row[:len(header)])
			continue
		}
		for i, h := range r.Holds {
			if i > 0 && utf8.RuneCountInString(name) > widestPadded {
				name = Cut(name, repeated) // a long name costs its whole length only once
			}
			token := "-"
			if h.Token != 0 {
				token = strconv.FormatUint(h.Token, 10)
			}
			rows = append(rows, []string{name, kind, holderOf(h), strconv.Itoa(h.Holds), heldText(r.Holds[i:]), LeaseText(h.Remaining), waiters, token, Clean(h.Owner)})
		}
	}
	return columns(rows, width)
}

const (
	nameColumn, holderColumn = 0, 2
	least                    = 12 // a narrow terminal shows at least so many characters of a name or a holder

	// widestPadded is the width up to which a column is aligned without a terminal. With a
	// column as wide as its widest cell, a name of 1 MB of another program would cost 1 MB in
	// each row.
	widestPadded = 200
	repeated     = 40 // characters of a longer name in the rows of its second and further holders
)

// columns aligns rows for a terminal with the given width. A name that is too long stands on a
// separate line, so that the other rows need no room for it. A holder that is too long is cut.
// If width is 0, lines may have any width, and each cell is whole: a cell of more than
// widestPadded characters moves the rest of its row to the right, and no other row.
func columns(rows [][]string, width int) string {
	most := widestPadded
	if width > 0 {
		most = math.MaxInt
	}
	widths := make([]int, len(rows[0]))
	for i := range widths {
		widths[i] = widest(rows, i, most)
	}
	if width > 0 {
		room := width - 2*(len(widths)-1)
		for i, w := range widths {
			if i != nameColumn && i != holderColumn {
				room -= w
			}
		}
		names, holders := &widths[nameColumn], &widths[holderColumn]
		*names = widest(rows, nameColumn, max(room-*holders, room/2, least))
		*holders = min(*holders, max(room-*names, least))
	}
	var out strings.Builder
	for _, row := range rows {
		if width > 0 && utf8.RuneCountInString(row[nameColumn]) > widths[nameColumn] {
			out.WriteString(row[nameColumn] + "\n")
			row[nameColumn] = ""
		}
		gap := 0 // spaces before the next cell
		for i, cell := range row {
			if width > 0 {
				cell = Cut(cell, widths[i])
			}
			if cell != "" {
				out.WriteString(strings.Repeat(" ", gap))
				out.WriteString(cell)
				gap = 0
			}
			gap += max(0, widths[i]-utf8.RuneCountInString(cell)) + 2
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// widest returns the width of the widest cell of a column, among cells of at most `most`
// characters.
func widest(rows [][]string, column, most int) (width int) {
	for _, row := range rows {
		if n := utf8.RuneCountInString(row[column]); n <= most {
			width = max(width, n)
		}
	}
	return width
}

// heldText returns how long the first hold has lasted, or "-" if that is not known.
func heldText(holds []admin.Hold) string {
	if len(holds) == 0 || holds[0].HeldFor < time.Second {
		return "-"
	}
	return Coarse(holds[0].HeldFor).String()
}

// kindOf returns the kind of r. For a held read-write lock it returns "read" or "write".
func kindOf(r admin.Record) string {
	if r.Kind == admin.KindReadWrite && len(r.Holds) > 0 {
		if r.Holds[0].Mode == driver.Shared {
			return "read"
		}
		return "write"
	}
	return string(r.Kind)
}

// countOf returns the text of the column COUNT: the number of holders, the hold count of the
// only holder, or the number of a latch or counter.
func countOf(r admin.Record) string {
	switch {
	case r.Kind == admin.KindSemaphore && r.Permits == 0:
		return fmt.Sprintf("%d of ?", r.Holders)
	case r.Kind == admin.KindSemaphore:
		return fmt.Sprintf("%d of %d", r.Holders, r.Permits)
	case r.Kind == admin.KindCounter, r.Kind == admin.KindLatch:
		return strconv.FormatInt(r.Count, 10)
	case len(r.Holds) == 1 && r.Holders == 1:
		return strconv.Itoa(r.Holds[0].Holds)
	default:
		return strconv.Itoa(r.Holders)
	}
}

// LeaseText returns a text for the rest of a lease.
func LeaseText(d time.Duration) string {
	switch {
	case d == admin.RemainingUnknown:
		return "unknown"
	case d < 0:
		return "forever"
	}
	return Coarse(d).String()
}

// waitersOf returns the number of waiters as text. If there are waiters in a queue, their
// number is exact. If there are none, the number is that of the clients that listen for a
// release, with a "~" before it. If no client listens, the text is "0". If the store cannot
// count the clients that listen, the text is "?".
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

// Setting is a value that the program uses, and where it comes from.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source,omitempty"` // a flag, a variable, a line of a file, or "default"
}

// PrintSettings prints settings for people, or as JSON.
func PrintSettings(w io.Writer, all []Setting, asJSON bool) error {
	if asJSON {
		for _, s := range all {
			if err := JSONTo(w).Encode(s); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for _, s := range all {
		rows = append(rows, []string{s.Name, cmp.Or(Clean(s.Value), "-"), Clean(s.Source)})
	}
	_, err := io.WriteString(w, columns(rows, 0))
	return err
}
