package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// The methods below print text for people. Only one goroutine may use them. They ignore errors
// of writes to Out, because after such an error nobody reads the output.

// heading prints a title with an empty line before it.
func (d *demo) heading(title string) { d.print("\n" + d.paint(bold, title) + "\n") }

// printf prints a line, with an indent.
func (d *demo) printf(format string, args ...any) {
	d.wipe()
	fmt.Fprintf(d.Out, "  "+format+"\n", args...)
}

// print prints lines as they are.
func (d *demo) print(text string) {
	d.wipe()
	_, _ = io.WriteString(d.Out, text)
}

// status shows a line that the next line replaces. If lines cannot be replaced, it prints
// nothing.
func (d *demo) status(format string, args ...any) {
	if !d.Terminal {
		return
	}
	fmt.Fprintf(d.Out, "\r\x1b[K  "+format, args...)
	d.dirty = true
}

func (d *demo) wipe() {
	if d.dirty {
		_, _ = io.WriteString(d.Out, "\r\x1b[K")
		d.dirty = false
	}
}

type style string

const (
	bold  style = "1"
	red   style = "31"
	green style = "32"
)

func (d *demo) paint(how style, text string) string {
	if !d.Color {
		return text
	}
	return "\x1b[" + string(how) + "m" + text + "\x1b[0m"
}

// bar draws a bar that shows `part` as a fraction of `whole`.
func bar(part, whole float64) string {
	const width = 24
	n := min(max(int(part/whole*width+0.5), 0), width)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}

// ms is a duration in milliseconds.
type ms int64

func inMS(d time.Duration) ms { return ms(d.Milliseconds()) }

// String returns the duration for people.
func (d ms) String() string {
	switch {
	case d == 0:
		return "less than 1 ms"
	case d < 10_000:
		return fmt.Sprintf("%d ms", int64(d))
	default:
		return fmt.Sprintf("%.1f s", float64(d)/1000)
	}
}
