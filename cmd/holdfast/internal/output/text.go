package output

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
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
			switch {
			case column == 0:
			case column+1+long > width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += long
		}
	}
	return out.String()
}

// Plural returns n and the noun one, with an s unless n is 1.
func Plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// OneLine returns the text of an error on one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Cut shortens text to at most `most` characters.
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
