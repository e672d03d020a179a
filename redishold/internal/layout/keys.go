// Package layout says where a lock lives in Redis: the keys, channels and owners that are
// made from its name, and what a refusal of the server means there.
package layout

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Layout makes keys and channels from names.
type Layout struct {
	Prefix       string
	Own          string                    // which layout it is if it is not Redisson's: "plain"
	SharedTokens bool                      // Redisson's counters, one per name
	Clients      string                    // what the registrations of clients begin with
	Slots        func() *[SlotCount]uint32 // SlotNumbers, found once
	places       places
	AllCommands  func() string // that a user of the engine needs, as ACL rules
	lastLease    atomic.Pointer[leaseText]
}

// New returns Redisson's layout, or the one that own names.
func New(prefix, own string, sharedTokens bool) *Layout {
	return &Layout{Prefix: prefix, Own: own, SharedTokens: sharedTokens, Slots: sync.OnceValue(SlotNumbers), Clients: prefix + "holdfast:client:"}
}

// Place is where a lock lives: the keys of one name, all in one hash slot.
type Place struct {
	Name    string // as the user knows it
	Lock    string // Redisson's key: a hash of owner and hold count
	Channel string // Redisson's channel
	Counter string // of fencing tokens, shared by all locks of the slot
	Marks   string // what the marks of its owners begin with

	Refusal error // why the name is not kept apart from others; nil if it is
}

// Locate works out where the lock called name lives.
func (l *Layout) Locate(name string) Place {
	p := l.Key(name)
	p.Channel = l.releaseChannel(p.Lock)
	p.Counter = l.counter(p.Lock)
	p.Marks = l.beside(p.Lock, "gone") + ":"
	p.Refusal = l.refuse(name, p.Lock)
	return p
}

// Key is place for calls that need no more than the lock's own key.
func (l *Layout) Key(name string) Place { return Place{Name: name, Lock: l.Prefix + name} }

// counter returns the key of the token counter for the slot of lock. A prefix
// with a hash tag puts all locks into one slot, and one counter serves them.
func (l *Layout) counter(lock string) string {
	if l.SharedTokens {
		return "redisson_lock_token:" + Tagged(lock)
	}
	if strings.Contains(l.Prefix, "{") {
		return l.Prefix + "holdfast:token"
	}
	n := l.Slots()[SlotOf(lock)]
	return l.Prefix + "holdfast:token:{" + strconv.FormatUint(uint64(n), 10) + "}"
}

// Mark returns the key that says that owner was given up or broken.
func (l *Layout) Mark(p Place, owner string) string { return p.Marks + owner }

// Waiting returns the key of waiters for the lock at p, for people. Like
// the marks it lies in the lock's slot.
func (l *Layout) Waiting(p Place) string { return l.beside(p.Lock, "waiting") }

// leaseText is a TTL and how scripts get it.
type leaseText struct {
	ttl  time.Duration
	text string
}

// Lease is ms for the TTL of a claim, which is nearly always that of the claim
// before.
func (l *Layout) Lease(ttl time.Duration) string {
	if last := l.lastLease.Load(); last != nil && last.ttl == ttl {
		return last.text
	}
	text := wire.MS(ttl)
	l.lastLease.Store(&leaseText{ttl, text})
	return text
}

// Pattern returns what an ACL must grant for the lock p so that the user has
// access to key, which is one of p's or one that the probe made beside it.
func (l *Layout) Pattern(p Place, key string) string {
	switch {
	case strings.HasPrefix(key, p.Lock):
		return p.Lock + "*"
	case strings.HasPrefix(key, l.Prefix+"holdfast:"):
		return l.Prefix + "holdfast:*"
	case strings.HasPrefix(key, "{"+p.Lock): // Redisson's rule for keys that begin with the name
		return "{" + p.Lock + "*"
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

// Channels returns what all channels begin with that are of the kind of channel. The
// channels of Plain and Timestamp have two words: one would let the user into those
// of clients too.
func (l *Layout) Channels(channel string) string {
	if strings.HasPrefix(channel, ownChannel) {
		return ownChannel
	}
	return family(channel)
}

// Client returns the key of a client's registration.
func (l *Layout) Client(uuid string) string { return l.Clients + uuid }

// Tagged returns raw so that a key that contains it lies in raw's slot. It is
// Redisson's rule for keys derived from a name.
func Tagged(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

// Record returns the key of the record.
func (l *Layout) Record(p Place) string { return l.beside(p.Lock, "ts") }

// Queue returns the keys of p's queue, of its deadlines, and of Holdfast's living.
func (l *Layout) Queue(p Place) (queue, deadlines, alive string) {
	return "redisson_lock_queue:" + Tagged(p.Lock), "redisson_lock_timeout:" + Tagged(p.Lock), l.beside(p.Lock, "fair")
}

// Permits is the key of the permits that are out.
func (l *Layout) Permits(p Place) string { return Tagged(p.Lock) + ":timeout" }

// SemaphoreChannel returns where all waiters for permits learn of them.
func SemaphoreChannel(p Place) string { return "redisson_sc:" + Tagged(p.Lock) }

// LatchChannel always has braces added, whatever the name has. That is how
// Redisson does it.
func LatchChannel(p Place) string { return "redisson_countdownlatch__channel__{" + p.Lock + "}" }

// ReadTimeout returns the key whose TTL is the lease of owner's read hold of a number,
// counted from 1: ours have one each.
func ReadTimeout(p Place, owner string, number int) string {
	return Tagged(p.Lock) + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(number)
}

// ReadWriteChannel returns where both sides learn of releases.
func ReadWriteChannel(p Place) string { return "redisson_rwlock:" + Tagged(p.Lock) }

// WriteField ends the field of a writer.
const WriteField = ":write"

// TokenKey is Redisson's counter of fencing tokens.
func TokenKey(p Place) string { return "redisson_lock_token:" + Tagged(p.Lock) }

// Call returns the key of the mark that says that a call was done.
func (l *Layout) Call(p Place, id string) string { return l.beside(p.Lock, "call") + ":" + id }

// EventLog returns the keys of the event log, which are in one slot.
func (l *Layout) EventLog() []string {
	key := l.Prefix + "holdfast:{events}"
	if strings.Contains(l.Prefix, "{") {
		key = l.Prefix + "holdfast:events"
	}
	return []string{key, key + ":rare"}
}

// ForcedMark is what the mark of a broken owner begins with; the reason follows.
const ForcedMark = "forced: "
