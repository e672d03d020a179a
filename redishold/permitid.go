package redishold

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	permitSize = 16 // of an id
	stemSize   = 10 // what of it is the client's
)

// permitOf is what stands for c in the layout: 16 bytes, as Redisson's ids are, and
// the same for every try of the claim. Its first ten bytes are the stem of the client,
// the others the claim's number, so that whoever finds it can ask whose it is. Where
// more tells claims apart than the client and the number, the owner is hashed.
func permitOf(c driver.Claim) string {
	if hasStem(c.Client) && isNumber(c.Seq) && isOwner(c.Owner, c.Client, c.Seq) {
		return numbered(c.Client, c.Seq)
	}
	return hashed(c.Owner)
}

// permitID is permitOf for the owner of a hold that is looked at.
func permitID(owner string) string {
	uuid, number, _ := cutOwner(owner)
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !isNumber(n) || !hasStem(uuid) || !isOwner(owner, uuid, n) {
		return hashed(owner)
	}
	return numbered(uuid, n)
}

// isNumber reports that n has room in an id.
func isNumber(n uint64) bool { return n > 0 && n < 1<<(8*(permitSize-stemSize)) }

// isOwner reports that owner says no more than which client it is, and the number.
func isOwner(owner, uuid string, n uint64) bool {
	var room [64]byte // more than a UUID and a number need
	return owner == string(strconv.AppendUint(append(append(room[:0], uuid...), ':'), n, 10))
}

func hashed(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return string(sum[:permitSize])
}

func numbered(uuid string, n uint64) string {
	var text [2 * stemSize]byte
	copyStem(&text, uuid)
	var id [permitSize]byte
	binary.BigEndian.PutUint64(id[permitSize-8:], n)
	_, _ = hex.Decode(id[:stemSize], text[:]) // a UUID has nothing else
	return string(id[:])
}

// hasStem reports that uuid is a random one (version 4), as those of Holdfast's
// clients are.
func hasStem(uuid string) bool {
	return isUUID(uuid) && uuid[14] == '4' && strings.IndexByte("89ab", uuid[19]) >= 0
}

// stemOf returns the first ten bytes of a UUID that has a stem, in hex.
func stemOf(uuid string) string {
	var text [2 * stemSize]byte
	copyStem(&text, uuid)
	return string(text[:])
}

func copyStem(to *[2 * stemSize]byte, uuid string) {
	n := copy(to[:], uuid[:8])
	n += copy(to[n:], uuid[9:13])
	n += copy(to[n:], uuid[14:18])
	copy(to[n:], uuid[19:23])
}

// cutPermit returns the stem of the client that made id, in hex, and the number of
// its owner. An id of Redisson's is random, and looks like that once in 64 times;
// then nobody is registered for its stem.
func cutPermit(id string) (stem, number string, ok bool) {
	if len(id) != permitSize || id[6]>>4 != 4 || id[8]>>6 != 2 {
		return "", "", false
	}
	var tail [8]byte
	copy(tail[8-(permitSize-stemSize):], id[stemSize:])
	n := binary.BigEndian.Uint64(tail[:])
	return hex.EncodeToString([]byte(id[:stemSize])), strconv.FormatUint(n, 10), true
}

// shownPermit returns the id that Get and List show in hex in place of an
// owner who is not known.
func shownPermit(owner string) (id string, ok bool) {
	b, err := hex.DecodeString(owner)
	return string(b), err == nil && len(b) == permitSize
}
