package output

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// JSONTo returns an encoder that escapes all characters that cannot be printed.
func JSONTo(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(PrintableJSON{w})
	encoder.SetEscapeHTML(false)
	return encoder
}

// PrintableJSON escapes the unprintable characters of JSON that is written to it. Names come
// from other programs, and control characters change what a terminal shows, or the direction
// of its text. encoding/json escapes only the control characters of ASCII, and not DEL. Each
// call of Write must have whole characters.
type PrintableJSON struct{ w io.Writer }

// Write writes the text with its unprintable characters escaped.
func (p PrintableJSON) Write(text []byte) (int, error) {
	var out []byte
	for _, r := range string(text) {
		switch {
		case r < 0x7f || unicode.IsPrint(r):
			out = append(out, string(r)...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}
