package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

const (
	permitSize = 16 // of an id
	stemSize   = 10 // what of it is the client's

	// StemLength is how long a stem is, in hex.
	StemLength = 2 * stemSize
)

// PermitID is what stands for an owner in the layout: 16 bytes, as Redisson's ids are, and
// the same for every try of a claim. Its first ten bytes are the stem of the client, the
// others the claim's number, so that a reader can ask whose it is. Where more
// distinguishes claims than the client and the number, the owner is hashed.
func PermitID(owner string) string {
	uuid, number, _ := CutOwner(owner)
	n, err := strconv.ParseUint(number, 10, 8*(permitSize-stemSize))
	if err != nil || number[0] == '0' || !HasStem(uuid) {
		sum := sha256.Sum256([]byte(owner))
		return string(sum[:permitSize])
	}
	var id [permitSize]byte
	binary.BigEndian.PutUint64(id[permitSize-8:], n)
	_, _ = hex.Decode(id[:stemSize], []byte(StemOf(uuid))) // a UUID has nothing else
	return string(id[:])
}

// HasStem reports that uuid is a random one (version 4), as those of Holdfast's
// clients are.
func HasStem(uuid string) bool {
	return IsUUID(uuid) && uuid[14] == '4' && strings.IndexByte("89ab", uuid[19]) >= 0
}

// StemOf returns the first ten bytes of a UUID that has a stem, in hex.
func StemOf(uuid string) string { return uuid[:8] + uuid[9:13] + uuid[14:18] + uuid[19:23] }

// Fits reports that uuid may be registered for stem.
func Fits(stem, uuid string) bool { return HasStem(uuid) && StemOf(uuid) == stem }

// CutPermit returns the stem of the client that made id, in hex, and the number of
// its owner. An id of Redisson's is random, and looks like that once in 64 times;
// then nobody is registered for its stem.
func CutPermit(id string) (stem, number string, ok bool) {
	if len(id) != permitSize || id[6]>>4 != 4 || id[8]>>6 != 2 {
		return "", "", false
	}
	var tail [8]byte
	copy(tail[8-(permitSize-stemSize):], id[stemSize:])
	n := binary.BigEndian.Uint64(tail[:])
	return hex.EncodeToString([]byte(id[:stemSize])), strconv.FormatUint(n, 10), true
}

// ShownPermit returns the id that Get and List show in hex in place of an
// owner who is not known.
func ShownPermit(owner string) (id string, ok bool) {
	b, err := hex.DecodeString(owner)
	return string(b), err == nil && len(b) == permitSize
}

// CutOwner splits "<uuid of the client>:<number>", as the store keeps owners.
func CutOwner(owner string) (uuid, number string, ok bool) {
	i := strings.LastIndexByte(owner, ':')
	if i <= 0 {
		return "", "", false
	}
	return owner[:i], owner[i+1:], true
}

// IsUUID reports that s looks like 71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11.
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

// ClientOf returns the UUID of the client that an owner of Redisson's layout
// begins with, "" if it is none.
func ClientOf(owner string) string {
	if uuid, rest, _ := strings.Cut(owner, ":"); rest != "" && IsUUID(uuid) {
		return uuid
	}
	return ""
}
