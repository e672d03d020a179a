package redishold

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// layout makes keys and channels from names.
type layout struct {
	prefix       string
	protocol     Protocol
	sharedTokens bool   // Redisson's counters, one per name
	clients      string // what the registrations of clients begin with
	slots        slotNumbers
	places       places
	lastLease    atomic.Pointer[leaseText]
}

func newLayout(o *Options) *layout {
	return &layout{prefix: o.Prefix, protocol: o.Protocol, sharedTokens: o.SharedTokens, clients: o.Prefix + "holdfast:client:"}
}

// place is where a lock lives: the keys of one name, all in one hash slot.
type place struct {
	name    string // as the user knows it
	lock    string // Redisson's key: a hash of owner and hold count
	channel string // Redisson's channel
	counter string // of fencing tokens, shared by all locks of the slot
	marks   string // what the marks of its owners begin with

	refusal error // why the name is not kept apart from others; nil if it is
}

// locate works out where the lock called name lives.
func (l *layout) locate(name string) place {
	p := l.key(name)
	p.channel = l.protocol.releaseChannel(p.lock)
	p.counter = l.counter(p.lock)
	p.marks = l.beside(p.lock, "gone") + ":"
	p.refusal = l.refuse(name, p.lock)
	return p
}

// key is place for calls that need no more than the lock's own key.
func (l *layout) key(name string) place { return place{name: name, lock: l.prefix + name} }

// counter returns the key of the token counter for the slot of lock. A prefix
// with a hash tag puts all locks into one slot, and one counter serves them.
func (l *layout) counter(lock string) string {
	if l.sharedTokens {
		return "redisson_lock_token:" + tagged(lock)
	}
	if strings.Contains(l.prefix, "{") {
		return l.prefix + "holdfast:token"
	}
	n := l.slots.of(slotOf(lock))
	return l.prefix + "holdfast:token:{" + strconv.FormatUint(uint64(n), 10) + "}"
}

// mark returns the key that says that owner was given up or broken.
func (l *layout) mark(p place, owner string) string { return p.marks + owner }

// waiting returns the key of those who wait for the lock at p, for people. Like
// the marks it lies in the lock's slot.
func (l *layout) waiting(p place) string { return l.beside(p.lock, "waiting") }

// leaseText is a TTL and how scripts are told it.
type leaseText struct {
	ttl  time.Duration
	text string
}

// lease is ms for the TTL of a claim, which is nearly always that of the claim
// before.
func (l *layout) lease(ttl time.Duration) string {
	if last := l.lastLease.Load(); last != nil && last.ttl == ttl {
		return last.text
	}
	text := ms(ttl)
	l.lastLease.Store(&leaseText{ttl, text})
	return text
}

// pattern returns what an ACL must grant for the lock p so that the user has
// access to key, which is one of p's or one that the probe made beside it.
func (l *layout) pattern(p place, key string) string {
	switch {
	case strings.HasPrefix(key, p.lock):
		return p.lock + "*"
	case strings.HasPrefix(key, l.prefix+"holdfast:"):
		return l.prefix + "holdfast:*"
	case strings.HasPrefix(key, "{"+p.lock): // Redisson's rule for keys that begin with the name
		return "{" + p.lock + "*"
	default:
		return family(key) + "*"
	}
}

// family returns what all of Redisson's keys or channels of one kind begin with:
// "redisson_lock_queue:" of "redisson_lock_queue:{orders}".
func family(key string) string {
	if i := strings.IndexAny(key, ":{"); i >= 0 && key[i] == ':' {
		return key[:i+1]
	} else if i >= 0 {
		return key[:i]
	}
	return key
}

// channels returns what all channels begin with that are of the kind of channel. The
// channels of Plain and Timestamp have two words: one would let the user into those
// of clients too.
func (l *layout) channels(channel string) string {
	if strings.HasPrefix(channel, ownChannel) {
		return ownChannel
	}
	return family(channel)
}

// client returns the key of a client's registration.
func (l *layout) client(uuid string) string {
	return l.clients + uuid
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
