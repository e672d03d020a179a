package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// wrap breaks prose into lines of a width. Lines that are indented stay as they are.
func wrap(text string, width int) string {
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

// plural counts what one is.
func plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
