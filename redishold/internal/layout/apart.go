package layout

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// No two names may share a key or a channel (rule 6 of package driver), or a
// release of one lock would serve the waiters of another. Holdfast's own keys keep
// names apart by themselves. Redisson's do not: there "orders" and "{orders}" have
// one queue, and "{orders}:timeout" is both a name and the permits of the semaphore
// "orders". Of such names one is refused.

// beside returns the key of Holdfast's own that keeps what beside the lock at key
// lock, in its slot. Where the prefix brings the hash tag, or a part of it, the whole
// lock goes first, so that the tag stays what it is; and so does "{orders}", or it
// would have the keys of "orders".
func (l *Layout) beside(lock, what string) string {
	if _, ok := Unwrapped(lock); ok || strings.Contains(l.Prefix, "{") {
		return lock + ":holdfast:" + what
	}
	return l.Prefix + "holdfast:" + what + ":" + Tagged(lock)
}

// IsBeside reports that key is one of those that Redisson or Holdfast keep beside
// their locks.
func (l *Layout) IsBeside(key string) bool {
	for _, begin := range []string{"redisson_lock_", "redisson_unlock_latch:", "redisson_rwlock", l.Prefix + "holdfast:"} {
		if strings.HasPrefix(key, begin) {
			return true
		}
	}
	return strings.Contains(key, ":holdfast:") || strings.Contains(key, ":rwlock_timeout:")
}

// releaseChannel returns the channel on which releases of lock are announced. It
// contains the lock so that it lies in its slot.
func (l *Layout) releaseChannel(lock string) string {
	switch {
	case l.Own == "":
		return RedissonChannel + Tagged(lock)
	case strings.Contains(lock, "{"):
		return ownChannel + ":" + lock
	default:
		return ownChannel + "{" + lock + "}"
	}
}

const (
	// RedissonChannel begins the channels of Redisson's locks.
	RedissonChannel = "redisson_lock__channel:"
	ownChannel      = "holdfast:free:"
)

// refuse says why the lock called name, at key lock, is not kept apart from
// another, or nil. It is the same on one server and in a cluster.
func (l *Layout) refuse(name, lock string) error {
	if strings.Contains(":"+name, ":holdfast:") {
		return wire.Refused(`redis cannot keep a lock under %q: names with "holdfast:" at their beginning or after a colon are Holdfast's own keys`, lock)
	}
	if l.Own != "" {
		return nil // nothing but the lock's own key is shared with others
	}
	if other, ok := Unwrapped(lock); ok && other != "" {
		return wire.Refused("redis cannot keep the locks %[1]q and %[2]q apart: in Redisson's layout they have the same queue, permits and channels: use %[2]q, which lies in the same slot", lock, l.nameOf(other))
	}
	if other, what := owned(lock); what != "" {
		return wire.Refused("redis cannot keep a lock under %q: that key is the %s of the lock %q", lock, what, l.nameOf(other))
	}
	return nil
}

// nameOf returns the name of the lock at key, as far as it has the prefix.
func (l *Layout) nameOf(key string) string { return strings.TrimPrefix(key, l.Prefix) }

// Unwrapped returns the lock whose derived keys are those of lock: "orders" of
// "{orders}", which Redisson's rule does not wrap once more.
func Unwrapped(lock string) (other string, ok bool) {
	if len(lock) < 2 || lock[0] != '{' || lock[len(lock)-1] != '}' || strings.Contains(lock[1:], "{") {
		return "", false
	}
	return lock[1 : len(lock)-1], true
}

// owned returns the lock to which Redisson's layout gives the key, and what of it
// the key is; "" if it is nobody's. All such keys have a brace in them.
func owned(key string) (lock, what string) {
	for _, family := range []struct{ begin, what string }{
		{"redisson_lock_queue:", "queue"},
		{"redisson_lock_timeout:", "queue"},
		{"redisson_lock_token:", "token counter"},
		{"redisson_unlock_latch:", "unlock latch"},
	} {
		if rest, ok := strings.CutPrefix(key, family.begin); ok && strings.Contains(rest, "{") {
			if family.what == "unlock latch" {
				rest = cutLast(rest, ":")
			}
			return bare(rest), family.what
		}
	}
	if rest, ok := strings.CutSuffix(key, ":timeout"); ok && strings.Contains(rest, "{") {
		return bare(rest), "set of permits"
	}
	if i := strings.LastIndex(key, ":rwlock_timeout:"); i > 0 && strings.Contains(key[:i], "{") {
		return bare(cutLast(cutLast(key[:i], ":"), ":")), "lease of a reader" // an owner has a colon in it
	}
	return "", ""
}

// bare undoes tagged.
func bare(key string) string {
	if other, ok := Unwrapped(key); ok && other != "" {
		return other
	}
	return key
}

func cutLast(s, sep string) string {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i]
	}
	return s
}

// Placeable says why a cluster cannot keep the lock p, or nil: Redis and Redisson would
// put the lock and what belongs to it into different slots.
func Placeable(p Place) error {
	open, shut := strings.IndexByte(p.Lock, '{'), strings.IndexByte(p.Lock, '}')
	switch {
	case open < 0 && shut < 0:
		return nil
	case open < 0 || shut < 0:
		return errors.New("in a cluster its braces must be balanced")
	case shut < open:
		return errors.New(`in a cluster it must not have "}" before the first "{"`)
	case shut == open+1:
		return errors.New(`in a cluster it must not have empty braces "{}" first`)
	case SlotOf(p.Counter) != SlotOf(p.Lock):
		return errors.New("in a cluster the braces of the key prefix must be balanced")
	}
	return nil
}
