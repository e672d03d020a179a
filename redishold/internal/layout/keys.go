// Package layout has the keys, channels and owners that are made from the name of a lock, and
// the meaning of an error reply for that lock.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Layout makes keys and channels from names.
type Layout struct {
	Prefix       string // the prefix of all keys that are made from names
	Name         string // "plain" or "timestamp"; "" for Redisson's layout
	SharedTokens bool   // use Redisson's token counters, one for each name
	Slots        *SlotNumbers
	keysCache    keysCache
	AllCommands  func() string // returns the commands that a user needs, as ACL rules
	lastLease    atomic.Pointer[leaseText]
}

// New returns Redisson's layout if name is "", otherwise the layout called name.
func New(prefix, name string, sharedTokens bool) *Layout {
	return &Layout{Prefix: prefix, Name: name, SharedTokens: sharedTokens, Slots: &SlotNumbers{}}
}

// Keys are the keys and the channel of one lock, all in one hash slot.
type Keys struct {
	Name       string // the name of the lock, without Layout.Prefix
	Lock       string // the key of the lock itself, which other programs use, too
	Channel    string // the channel on which releases are published
	Counter    string // the key of the counter of fencing tokens, which usually all locks of the slot share
	Tombstones string // prefix of the tombstones of owners

	NameErr error // the error for a name that would share keys with another lock; otherwise nil
}

// ComputeKeys returns the keys of the lock called name. The method Keys returns the same, but
// from a cache if possible.
func (l *Layout) ComputeKeys(name string) Keys {
	k := l.LockOnly(name)
	k.Channel = l.releaseChannel(k.Lock)
	k.Counter = l.counter(k.Lock)
	k.Tombstones = l.tombstones(k.Lock) + ":"
	k.NameErr = l.checkName(name, k.Lock)
	return k
}

// LockOnly does the same as ComputeKeys, but sets only the fields Name and Lock. It is for calls
// that need no other key.
func (l *Layout) LockOnly(name string) Keys { return Keys{Name: name, Lock: l.Prefix + name} }

// counter returns the key of the token counter for the slot of lock. A prefix with a hash tag
// puts all locks into one slot, so they all have one counter.
func (l *Layout) counter(lock string) string {
	if l.SharedTokens {
		return "redisson_lock_token:" + Tagged(lock)
	}
	if strings.Contains(l.Prefix, "{") {
		return l.Prefix + "holdfast:token"
	}
	return l.Prefix + "holdfast:token:{" + l.slotTag(lock) + "}"
}

// longName is the maximal number of bytes of the key of a lock that is part of the keys of its
// tombstones. Each attempt to take a lock sends the key of a tombstone.
const longName = 256

// tombstones returns the prefix of the tombstones of a lock, in the slot of the lock. For a long
// name the prefix has a digest in place of the name.
func (l *Layout) tombstones(lock string) string {
	if len(lock) <= longName {
		return l.auxiliary(lock, "gone")
	}
	sum := sha256.Sum256([]byte(lock))
	digest := hex.EncodeToString(sum[:16])
	if strings.Contains(l.Prefix, "{") {
		return l.Prefix + "holdfast:gone:" + digest
	}
	return l.Prefix + "holdfast:gone:{" + l.slotTag(lock) + "}:" + digest
}

// slotTag returns a number that hashes to the slot of lock.
func (l *Layout) slotTag(lock string) string {
	return strconv.FormatUint(uint64(l.Slots.Of(SlotOf(lock))), 10)
}

// Tombstone returns the key of the tombstone of `owner`. The tombstone exists for a while after
// the claim of this owner was abandoned or forced.
func (l *Layout) Tombstone(k Keys, owner string) string { return k.Tombstones + owner }

// Waiters returns the key of the reports of clients that wait for the lock. These reports are
// for operators. The key is in the slot of the lock.
func (l *Layout) Waiters(k Keys) string { return l.auxiliary(k.Lock, "waiting") }

// leaseText is a TTL and its text for scripts.
type leaseText struct {
	ttl  time.Duration
	text string
}

// Lease returns what wire.MS returns for `ttl`, the TTL of a claim. It keeps the last text,
// because nearly all claims have the same TTL.
func (l *Layout) Lease(ttl time.Duration) string {
	if last := l.lastLease.Load(); last != nil && last.ttl == ttl {
		return last.text
	}
	text := wire.MS(ttl)
	l.lastLease.Store(&leaseText{ttl, text})
	return text
}

// KeyPattern returns the key pattern of an ACL rule with which the user has access to the
// parameter `key`. This key is a key of the lock, or a scratch key of the probe for the lock.
func (l *Layout) KeyPattern(k Keys, key string) string {
	switch {
	case strings.HasPrefix(key, k.Lock):
		return k.Lock + "*"
	case strings.HasPrefix(key, l.Prefix+"holdfast:"):
		return l.Prefix + "holdfast:*"
	case strings.HasPrefix(key, "{"+k.Lock): // Redisson's rule for keys that begin with the name
		return "{" + k.Lock + "*"
	default:
		return family(key) + "*"
	}
}

// family returns the common prefix of Redisson's keys or channels of one kind:
// "redisson_lock_queue:" for "redisson_lock_queue:{orders}".
func family(key string) string {
	if i := strings.IndexAny(key, ":{"); i >= 0 && key[i] == ':' {
		return key[:i+1]
	} else if i >= 0 {
		return key[:i]
	}
	return key
}

// ChannelPrefix returns the common prefix of all channels that have the same kind as `channel`.
// For the layouts Plain and Timestamp the prefix has two words, because the channels of clients
// begin with the same first word.
func (l *Layout) ChannelPrefix(channel string) string {
	if strings.HasPrefix(channel, ownChannel) {
		return ownChannel
	}
	return family(channel)
}

// Registration returns the key of the registration of a client or of a stem. The key is also
// the name of the channel of the client.
func (l *Layout) Registration(uuid string) string { return l.Prefix + "holdfast:client:" + uuid }

// Tagged returns `raw` in braces. If `raw` already has an opening brace, Tagged returns `raw`
// unchanged. A key that contains the result is in the slot of `raw`. This is Redisson's rule for
// keys that are derived from a name.
func Tagged(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

// Record returns the key of the record of a lock in the layout Timestamp.
func (l *Layout) Record(k Keys) string { return l.auxiliary(k.Lock, "ts") }

// Queue returns three keys of a fair lock. The first has the queue, the second has the deadlines
// of the waiters, and the third has the times until which Holdfast's waiters count as alive.
func (l *Layout) Queue(k Keys) (queue, deadlines, alive string) {
	return "redisson_lock_queue:" + Tagged(k.Lock), "redisson_lock_timeout:" + Tagged(k.Lock), l.auxiliary(k.Lock, "fair")
}

// Permits returns the key of the held permits of a semaphore.
func (l *Layout) Permits(k Keys) string { return Tagged(k.Lock) + ":timeout" }

// SemaphoreChannel returns the channel of a semaphore, on which the number of free permits is
// published.
func SemaphoreChannel(k Keys) string { return "redisson_sc:" + Tagged(k.Lock) }

// LatchChannel returns the channel of a latch. As in Redisson, the channel always has braces
// around the name, even if the name has braces.
func LatchChannel(k Keys) string { return "redisson_countdownlatch__channel__{" + k.Lock + "}" }

// TimeoutKey returns a timeout key of a reader: the TTL of the key is the lease of one read
// hold of the owner. The parameter `number` is the number of that hold, counted from 1. An
// owner of Holdfast has only the timeout key with the number 1.
func TimeoutKey(k Keys, owner string, number int) string {
	return Tagged(k.Lock) + ":" + owner + ":rwlock_timeout:" + strconv.Itoa(number)
}

const (
	// MaxReader is the maximal number of bytes of the field of a reader whose timeout keys are
	// read. Owners are shorter. The limit is for fields that other programs have written, because
	// each timeout key has the whole field.
	MaxReader = 512
	// maxTimeoutKeys is the maximal number of timeout keys of one call. It is also in
	// scan_readers.lua.
	maxTimeoutKeys = 2000
)

// TimeoutKeys returns the timeout keys of some readers, at most maxTimeoutKeys. The parameter
// `readers` has the field and the hold count of each reader. TimeoutKeys leaves out a reader
// whose field is too long, or whose hold count is not a number: other programs may have written
// them.
func TimeoutKeys(k Keys, readers []string) (keys []string) {
	for i := 0; i+1 < len(readers); i += 2 {
		holds, _ := strconv.Atoi(readers[i+1])
		if len(readers[i]) > MaxReader {
			continue
		}
		for n := 1; n <= holds && len(keys) < maxTimeoutKeys; n++ {
			keys = append(keys, TimeoutKey(k, readers[i], n))
		}
	}
	return keys
}

// ReadWriteChannel returns the channel of a read-write lock, for waiters of both sides.
func ReadWriteChannel(k Keys) string { return "redisson_rwlock:" + Tagged(k.Lock) }

// WriteField is the suffix of the field of a writer.
const WriteField = ":write"

// TokenKey returns the key of the counter of Redisson's RFencedLock.
func TokenKey(k Keys) string { return "redisson_lock_token:" + Tagged(k.Lock) }

// CallKey returns the idempotency key of the call with the given id.
func (l *Layout) CallKey(k Keys, id string) string { return l.auxiliary(k.Lock, "call") + ":" + id }

// EventLog returns the keys of the event log, which are in one slot.
func (l *Layout) EventLog() []string {
	key := l.Prefix + "holdfast:{events}"
	if strings.Contains(l.Prefix, "{") {
		key = l.Prefix + "holdfast:events"
	}
	return []string{key, key + ":rare"}
}

// ForcedPrefix is the prefix of the text in a tombstone that a force unlock has set. The reason
// follows this prefix.
const ForcedPrefix = "forced: "
