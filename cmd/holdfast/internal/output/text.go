package output

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Wrap breaks prose into lines of a width. Lines that are indented stay as they are.
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

// Plural counts what one is.
func Plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// OneLine is the text of an error on one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Cut shortens text to so many characters.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, most-1)]) + "…"
}

// Coarse rounds a duration to what a person wants to read.
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
