package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

const (
	permitSize = 16 // number of bytes of a permit id
	stemSize   = 10 // number of bytes of the stem with which a permit id begins

	// StemLength is the number of hex digits of a stem.
	StemLength = 2 * stemSize
)

// PermitID returns the permit id for an owner. It has 16 bytes, as Redisson's ids, and is the
// same for every try of a claim. If the owner consists of a UUID that has a stem and of the
// number of a claim, the first ten bytes are the stem of the client, and the others are the
// number. So a reader of the id can find the client. For any other owner, the id is a hash of
// the owner.
func PermitID(owner string) string {
	uuid, number, _ := CutOwner(owner)
	n, err := strconv.ParseUint(number, 10, 8*(permitSize-stemSize))
	if err != nil || number[0] == '0' || !HasStem(uuid) {
		sum := sha256.Sum256([]byte(owner))
		return string(sum[:permitSize])
	}
	var id [permitSize]byte
	binary.BigEndian.PutUint64(id[permitSize-8:], n)
	_, _ = hex.Decode(id[:stemSize], []byte(StemOf(uuid))) // no error: a UUID has only hex digits
	return string(id[:])
}

// HasStem reports whether uuid is a random UUID (version 4), as the UUIDs of Holdfast's clients
// are.
func HasStem(uuid string) bool {
	return IsUUID(uuid) && uuid[14] == '4' && strings.IndexByte("89ab", uuid[19]) >= 0
}

// StemOf returns the first ten bytes of a UUID that has a stem, in hex.
func StemOf(uuid string) string { return uuid[:8] + uuid[9:13] + uuid[14:18] + uuid[19:23] }

// Fits reports whether stem is the stem of uuid.
func Fits(stem, uuid string) bool { return HasStem(uuid) && StemOf(uuid) == stem }

// CutPermit returns the stem of the client in a permit id, in hex, and the number of the claim.
// The result `ok` is false if the id has no stem. The ids of Redisson are random, so one of 64
// such ids seems to have a stem. But no client is registered for that stem.
func CutPermit(id string) (stem, number string, ok bool) {
	if len(id) != permitSize || id[6]>>4 != 4 || id[8]>>6 != 2 {
		return "", "", false
	}
	var tail [8]byte
	copy(tail[8-(permitSize-stemSize):], id[stemSize:])
	n := binary.BigEndian.Uint64(tail[:])
	return hex.EncodeToString([]byte(id[:stemSize])), strconv.FormatUint(n, 10), true
}

// ShownPermit decodes an owner that is a permit id in hex. Get and List show such an owner if
// the true owner of the permit is not known. The result `ok` is false for any other owner.
func ShownPermit(owner string) (id string, ok bool) {
	b, err := hex.DecodeString(owner)
	return string(b), err == nil && len(b) == permitSize
}

// CutOwner splits an owner, "<UUID of the client>:<number>".
func CutOwner(owner string) (uuid, number string, ok bool) {
	i := strings.LastIndexByte(owner, ':')
	if i <= 0 {
		return "", "", false
	}
	return owner[:i], owner[i+1:], true
}

// IsUUID reports whether s has the form 71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !strings.ContainsRune("0123456789abcdef", rune(s[i])) {
			return false
		}
	}
	return true
}

// ClientOf returns the UUID with which an owner in Redisson's layout begins, or "" if the owner
// does not begin with a UUID.
func ClientOf(owner string) string {
	if uuid, rest, _ := strings.Cut(owner, ":"); rest != "" && IsUUID(uuid) {
		return uuid
	}
	return ""
}
