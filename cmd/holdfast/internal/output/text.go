package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/plural"
)

// Wrap breaks prose into lines of at most width characters. Indented lines stay as they are.
func Wrap(text string, width int) string {
	var out strings.Builder
	column := 0 // where the next word goes; 0 at the beginning of a line
	for line := range strings.Lines(text) {
		if line == "\n" || line[0] == ' ' {
			if column > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(line)
			column = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			long := utf8.RuneCountInString(word)
			if column > 0 && column+1+long > width {
				out.WriteByte('\n')
				column = 0
			}
			if column > 0 {
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += long
		}
	}
	return out.String()
}

// OneLine returns the text of an error on one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Cut shortens a text to at most `most` characters.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, most-1)]) + "…"
}

// Coarse rounds a duration for people: to seconds from 10 s on, to tenths of a second from 1
// s on, else to milliseconds.
func Coarse(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}

// People returns a short text about the holders of r: the first one, and how many more there
// are.
func People(r admin.Record) string {
	if len(r.Holds) == 0 {
		return ""
	}
	who := holderOf(r.Holds[0])
	if r.Holders > 1 {
		who += fmt.Sprintf(" and %d more", r.Holders-1)
	}
	return who
}

// holderOf returns a text that names the holder. If nobody holds the lock, but its name stays
// taken, the text says until when.
func holderOf(h admin.Hold) string {
	who := Person(h.Owner, h.Note, h.Client)
	if h.Kept() {
		return clock.TakenUntil(time.Now().Add(max(h.Remaining, 0))) + " (kept by " + who + ")"
	}
	return who
}

// Person returns the name of an owner: "program@host:pid" with its reason and labels, or the
// client and the thread of a Redisson program.
func Person(owner, note string, c admin.Client) string {
	return Clean(observe.Describe(c, owner, note).String())
}

// NamesOf returns the texts by which people know the holder of h: what Person returns, and the
// part of it that names only the process. The texts that are not printable stand there as Clean
// shows them, and as they are.
func NamesOf(h admin.Hold) []string {
	person := observe.Describe(h.Client, h.Owner, h.Note)
	process := observe.Person{Library: person.Library, Name: person.Name}.String()
	return []string{person.String(), Clean(person.String()), process, Clean(process)}
}

// mostOwners is the largest number of holds that Owners names.
const mostOwners = 5

// Owners returns a text that names the process of each hold, and its owner. It ends with the
// number of the other holds if there are more than five.
func Owners(holds []admin.Hold) string {
	var names []string
	for _, h := range holds[:min(len(holds), mostOwners)] {
		person := observe.Describe(h.Client, h.Owner, h.Note)
		names = append(names, Clean(person.Who())+" (owner "+Clean(h.Owner)+")")
	}
	if more := len(holds) - mostOwners; more > 0 {
		names = append(names, plural.Count(more, "other"))
	}
	return strings.Join(names, ", ")
}

// Clean returns s with its unprintable characters escaped, so that a text of another program
// stays on one line of a terminal and does not move the cursor.
func Clean(s string) string {
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			quoted := strconv.Quote(s)
			return quoted[1 : len(quoted)-1]
		}
	}
	return s
}
