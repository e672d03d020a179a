package redishold

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
)

// permitID is what stands for owner in the layout: 16 bytes, as Redisson's ids
// are, and the same for every try of the claim. Its first ten bytes are the stem
// of the client, the others the owner's number, so that whoever finds it can ask
// whose it is. An owner of another form than the core's is hashed.
func permitID(owner string) string {
	uuid, number, _ := cutOwner(owner)
	n, err := strconv.ParseUint(number, 10, 8*(permitSize-stemSize))
	if err != nil || number[0] == '0' || !hasStem(uuid) {
		sum := sha256.Sum256([]byte(owner))
		return string(sum[:permitSize])
	}
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
