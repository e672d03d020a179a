package dash

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	longName         = 96   // the most characters of a name that a table shows
	longConfirmation = 40   // the most characters of a name that an operator has to type
	longPlace        = 4096 // the most bytes of a name that a link can hold
)

// printable returns s as text for a page. If s has control characters, bytes that are not
// UTF-8, or characters that change how other characters are shown, it escapes them, and then
// also quotes and backslashes. If not, it returns s as it is.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return s
	}
	text := strconv.Quote(s)
	return text[1 : len(text)-1]
}

// errorText returns the text of err for a page.
func errorText(err error) string { return short(printable(err.Error()), 300) }

// lines returns s as printable does, but keeps the ends of lines.
func lines(s string) string {
	parts := strings.Split(s, "\n")
	for i, p := range parts {
		parts[i] = printable(p)
	}
	return strings.Join(parts, "\n")
}

// short cuts a text to at most n characters.
func short(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// confirmation returns the text that an operator must type to force the lock with this name.
func confirmation(name string) string {
	text := []rune(printable(name))
	return trimmed(string(text[:min(len(text), longConfirmation)]))
}

// trimmed returns s without the spaces around it. If there are only spaces they stay,
// because a name may consist of them.
func trimmed(s string) string {
	if text := strings.TrimSpace(s); text != "" {
		return text
	}
	return s
}

// identity returns the identifier of the HTML element for s.
func identity(prefix, s string) string {
	sum := sha256.Sum256([]byte(s))
	return prefix + hex.EncodeToString(sum[:8])
}

// lockLink returns the relative address of the page of a lock. The name may have any bytes.
// If it is empty or too long, lockLink returns "".
func lockLink(name string) string {
	if name == "" || len(name) > longPlace {
		return ""
	}
	return "lock?name=" + url.QueryEscape(name)
}

// span formats d in at most two units. The script dash.js formats durations in the same way in
// the browser.
func span(d time.Duration) string {
	s := int64(max(d, 0).Round(time.Second) / time.Second)
	switch {
	case d > 0 && d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh %02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd %02dh", s/86400, s/3600%24)
	}
}

// quoted returns s as one word of a shell.
func quoted(s string) string {
	plain := s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:@%+,=", r)
	}) < 0
	switch {
	case plain:
		return s
	case printable(s) != s:
		return "$'" + strings.ReplaceAll(printable(s), `'`, `\'`) + "'"
	default:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
}
