package demo

import (
	"fmt"
	"io"
	"strings"
)

// screen prints text for people. Only one goroutine may use it. It ignores errors of the
// writer: nobody reads the output then.
type screen struct {
	out   io.Writer
	live  bool // the last line can be rewritten
	color bool
	dirty bool // the last line is a status line, which must be erased
}

// heading prints a title with an empty line before it.
func (s *screen) heading(format string, args ...any) {
	s.wipe()
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, fmt.Sprintf(format, args...)))
}

// printf prints a line.
func (s *screen) printf(format string, args ...any) {
	s.wipe()
	if format != "" {
		format = "  " + format
	}
	fmt.Fprintf(s.out, format+"\n", args...)
}

// print prints lines as they are.
func (s *screen) print(text string) {
	s.wipe()
	_, _ = io.WriteString(s.out, text)
}

// status shows a line that the next line replaces. If lines cannot be replaced, it prints
// nothing.
func (s *screen) status(format string, args ...any) {
	if !s.live {
		return
	}
	fmt.Fprintf(s.out, "\r\x1b[K  "+format, args...)
	s.dirty = true
}

func (s *screen) wipe() {
	if s.dirty {
		_, _ = io.WriteString(s.out, "\r\x1b[K")
		s.dirty = false
	}
}

type style string

const (
	bold  style = "1"
	dim   style = "2"
	red   style = "31"
	green style = "32"
)

func (s *screen) paint(how style, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + string(how) + "m" + text + "\x1b[0m"
}

// bar draws the fraction part/whole.
func bar(part, whole float64) string {
	const width = 24
	n := min(max(int(part/whole*width+0.5), 0), width)
	return "[" + strings.Repeat("#", n) + strings.Repeat(".", width-n) + "]"
}
