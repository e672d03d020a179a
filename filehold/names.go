package filehold

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

const (
	// longestFile is how many bytes the name of a file has at most. File systems allow 255.
	longestFile = 200
	// hashed is what the file of a longer name begins with. No other file does.
	hashed = "+"
)

// fileName returns the name of the file for the lock `name`. Two names have different files, also where
// a file system does not distinguish between upper and lower case.
func fileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteString(hex.EncodeToString([]byte{c}))
		}
	}
	if b.Len() <= longestFile {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

// nameOf returns the name of a lock for the name of its file. The result `whole` is false if only the
// content of the file says it.
func nameOf(file string) (name string, whole bool) {
	if strings.HasPrefix(file, hashed) {
		return "", false
	}
	var b strings.Builder
	for i := 0; i < len(file); i++ {
		if file[i] != '%' || i+2 >= len(file) {
			b.WriteByte(file[i])
			continue
		}
		c, err := strconv.ParseUint(file[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), true
}
