package advisory

import (
	"hash/crc32"
	"strings"
	"unicode/utf16"
)

// Migrate returns the number that golang-migrate makes of names.
func Migrate(names ...string) uint32 {
	const salt = 1486364155
	return crc32.ChecksumIEEE([]byte(strings.Join(names, "\x00"))) * salt
}

// Rails returns the number that Rails makes of the name of a database.
func Rails(database string) int64 {
	const salt = 2053462845
	return salt * int64(crc32.ChecksumIEEE([]byte(database)))
}

// JavaHash returns what String.hashCode of Java returns, which Flyway uses.
func JavaHash(s string) (sum int32) {
	for _, unit := range utf16.Encode([]rune(s)) {
		sum = 31*sum + int32(unit)
	}
	return sum
}
