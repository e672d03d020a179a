package rows

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Escape returns the key of a name in a table. The key is the name itself if the name is text
// without a backslash. A text in a database cannot contain the byte 0, or bytes that are not
// UTF-8. Escape replaces each of these bytes, and each backslash, by a backslash and two
// hexadecimal digits.
func Escape(name string) string {
	if utf8.ValidString(name) && !strings.ContainsAny(name, "\\\x00") {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		_, size := utf8.DecodeRuneInString(name[i:])
		if r == '\\' || r == 0 || r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\%02x`, name[i])
			continue
		}
		b.WriteString(name[i : i+size])
	}
	return b.String()
}

// Unescape returns the name from which Escape made key.
func Unescape(key string) string {
	var b strings.Builder
	for {
		text, rest, found := strings.Cut(key, `\`)
		b.WriteString(text)
		if !found || len(rest) < 2 {
			return b.String()
		}
		if n, err := strconv.ParseUint(rest[:2], 16, 8); err == nil {
			b.WriteByte(byte(n))
		}
		key = rest[2:]
	}
}

// TxName returns the key of a row that a LockTx locks: while a transaction has this row locked,
// it has the lock of the name. Escape returns no such key.
func TxName(name string) string { return txPrefix + Escape(name) }

const txPrefix = `\tx `

// isTx reports whether a key is the result of a TxName.
func isTx(key string) bool { return strings.HasPrefix(key, txPrefix) }

// Text returns s as text that a database accepts. U+FFFD replaces each byte 0, and each
// sequence of bytes that is not UTF-8.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
