package redishold

import (
	"errors"
	"strconv"
	"strings"
)

// layout makes keys and channels from names.
type layout struct {
	prefix string
	slots  slotNumbers
}

// place is where a lock lives: the keys of one name, all in one hash slot.
type place struct {
	name    string // as the user knows it
	lock    string // Redisson's key: a hash of owner and hold count
	channel string // Redisson's channel
	counter string // of fencing tokens, shared by all locks of the slot
}

// place returns where the lock called name lives.
func (l *layout) place(name string) place {
	lock := l.prefix + name
	return place{name: name, lock: lock, channel: "redisson_lock__channel:" + tagged(lock), counter: l.counter(lock)}
}

// counter returns the key of the token counter for the slot of lock. A prefix
// with a hash tag puts all locks into one slot, and one counter serves them.
func (l *layout) counter(lock string) string {
	if strings.Contains(l.prefix, "{") {
		return l.prefix + "holdfast:token"
	}
	n := l.slots.of(slotOf(lock))
	return l.prefix + "holdfast:token:{" + strconv.FormatUint(uint64(n), 10) + "}"
}

// mark returns the key that says that owner was given up or broken. Where the
// prefix brings the hash tag, or a part of it, the whole lock goes first so that
// the tag stays what it is.
func (l *layout) mark(p place, owner string) string {
	if strings.Contains(l.prefix, "{") {
		return p.lock + ":holdfast:gone:" + owner
	}
	return l.prefix + "holdfast:gone:" + tagged(p.lock) + ":" + owner
}

// patterns returns what an ACL must grant for the lock p: the pattern of its key
// and of those that begin with it (the probe's, and marks where the prefix has a
// hash tag), and that of all the others.
func (l *layout) patterns(p place) (lock, others string) {
	return p.lock + "*", l.prefix + "holdfast:*"
}

// client returns the key of a client's registration.
func (l *layout) client(uuid string) string {
	return l.prefix + "holdfast:client:" + uuid
}

// tagged returns raw so that a key that contains it lies in raw's slot. It is
// Redisson's rule for keys derived from a name.
func tagged(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

// Reasons why a cluster cannot keep a lock under a key. Redis and Redisson would
// put the lock and what belongs to it into different slots.
var (
	errOpenBrace  = errors.New("in a cluster its braces must be balanced")
	errBraceOrder = errors.New(`in a cluster it must not have "}" before the first "{"`)
	errEmptyTag   = errors.New(`in a cluster it must not have empty braces "{}" first`)
	errPrefix     = errors.New("in a cluster the braces of the key prefix must be balanced")
)

// placeable says why a cluster cannot keep the lock p, or nil.
func placeable(p place) error {
	open, shut := strings.IndexByte(p.lock, '{'), strings.IndexByte(p.lock, '}')
	switch {
	case open < 0 && shut < 0:
		return nil
	case open < 0 || shut < 0:
		return errOpenBrace
	case shut < open:
		return errBraceOrder
	case shut == open+1:
		return errEmptyTag
	case slotOf(p.counter) != slotOf(p.lock):
		return errPrefix
	default:
		return nil
	}
}
