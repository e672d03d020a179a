package layout

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// No two names may share a key or a channel (rule 6 of package driver). Otherwise a release of
// one lock would wake the waiters of another. Holdfast's own keys are different for different
// names. Redisson's keys are not: "orders" and "{orders}" have the same queue, and
// "{orders}:timeout" is both a name and the key of the permits of the semaphore "orders".
// Therefore checkName refuses one of two such names.

// auxiliary returns Holdfast's key for the purpose `what`, in the slot of the key `lock`. If
// the prefix has the hash tag, or a part of it, the result begins with all of `lock`, so that
// the hash tag stays the same. For a lock such as "{orders}", the result also begins with all
// of `lock`, because Tagged returns the same for "{orders}" and "orders".
func (l *Layout) auxiliary(lock, what string) string {
	if _, ok := Unwrapped(lock); ok || strings.Contains(l.Prefix, "{") {
		return lock + ":holdfast:" + what
	}
	return l.Prefix + "holdfast:" + what + ":" + Tagged(lock)
}

// IsAuxiliary reports whether `key` is not the key of a lock itself, but another key that
// Redisson or Holdfast uses for locks.
func (l *Layout) IsAuxiliary(key string) bool {
	for _, prefix := range []string{"redisson_lock_", "redisson_unlock_latch:", "redisson_rwlock", l.Prefix + "holdfast:"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return strings.Contains(key, ":holdfast:") || strings.Contains(key, ":rwlock_timeout:")
}

// releaseChannel returns the channel on which releases of a lock are published. The name of the
// channel contains `lock`, the key of the lock, so that both are in the same slot.
func (l *Layout) releaseChannel(lock string) string {
	switch {
	case l.Name == "":
		return RedissonChannel + Tagged(lock)
	case strings.Contains(lock, "{"):
		return ownChannel + ":" + lock
	default:
		return ownChannel + "{" + lock + "}"
	}
}

const (
	// RedissonChannel is the prefix of the channels of Redisson's locks.
	RedissonChannel = "redisson_lock__channel:"
	ownChannel      = "holdfast:free:"
)

// checkName returns an error if the lock called name would share keys with another lock. The
// parameter `lock` is the key of the lock. The result is the same on one server and in a
// cluster.
func (l *Layout) checkName(name, lock string) error {
	if strings.Contains(":"+name, ":holdfast:") {
		return wire.Refused(`redis cannot keep a lock under %q: names with "holdfast:" at their beginning or after a colon are Holdfast's own keys`, lock)
	}
	if l.Name != "" {
		return nil // in the other layouts, other programs use only the key of the lock itself
	}
	if other, ok := Unwrapped(lock); ok && other != "" {
		return wire.Refused("redis cannot keep the locks %[1]q and %[2]q apart: in Redisson's layout they have the same queue, permits and channels: use %[2]q, which lies in the same slot", lock, l.nameOf(other))
	}
	if other, what := derivedFrom(lock); what != "" {
		return wire.Refused("redis cannot keep a lock under %q: that key is the %s of the lock %q", lock, what, l.nameOf(other))
	}
	return nil
}

// nameOf returns the name of the lock with the given key: the key without Layout.Prefix. If the
// key does not begin with that prefix, nameOf returns the whole key.
func (l *Layout) nameOf(key string) string { return strings.TrimPrefix(key, l.Prefix) }

// Unwrapped returns the key of another lock, if that lock and the given one have the same
// derived keys: "orders" for "{orders}". Their derived keys are the same, because Redisson's
// rule puts braces around "orders", but adds no second pair of braces to "{orders}". The result
// `ok` is false if there is no such lock.
func Unwrapped(lock string) (other string, ok bool) {
	if len(lock) < 2 || lock[0] != '{' || lock[len(lock)-1] != '}' || strings.Contains(lock[1:], "{") {
		return "", false
	}
	return lock[1 : len(lock)-1], true
}

// derivedFrom returns the key of the lock from which Redisson's layout derives the given key.
// The result `what` says what the given key is for. Both results are "" if the given key is not
// derived from a lock. All derived keys have a brace.
func derivedFrom(key string) (lock, what string) {
	for _, family := range []struct{ prefix, what string }{
		{"redisson_lock_queue:", "queue"},
		{"redisson_lock_timeout:", "queue"},
		{"redisson_lock_token:", "token counter"},
		{"redisson_unlock_latch:", "unlock latch"},
	} {
		if rest, ok := strings.CutPrefix(key, family.prefix); ok && strings.Contains(rest, "{") {
			if family.what == "unlock latch" {
				rest = cutLast(rest, ":")
			}
			return untagged(rest), family.what
		}
	}
	if rest, ok := strings.CutSuffix(key, ":timeout"); ok && strings.Contains(rest, "{") {
		return untagged(rest), "set of permits"
	}
	if i := strings.LastIndex(key, ":rwlock_timeout:"); i > 0 && strings.Contains(key[:i], "{") {
		return untagged(cutLast(cutLast(key[:i], ":"), ":")), "lease of a reader" // two cuts, because an owner has a colon inside
	}
	return "", ""
}

// untagged is the inverse of Tagged: it returns the key of the lock for which Tagged returns
// `key`.
func untagged(key string) string {
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

// CheckSlots returns an error if the keys of a lock are in different slots, so that a
// cluster cannot have the lock.
func CheckSlots(k Keys) error {
	open, shut := strings.IndexByte(k.Lock, '{'), strings.IndexByte(k.Lock, '}')
	switch {
	case open < 0 && shut < 0:
		return nil
	case open < 0 || shut < 0:
		return errors.New("in a cluster its braces must be balanced")
	case shut < open:
		return errors.New(`in a cluster it must not have "}" before the first "{"`)
	case shut == open+1:
		return errors.New(`in a cluster it must not have empty braces "{}" first`)
	case SlotOf(k.Counter) != SlotOf(k.Lock):
		return errors.New("in a cluster the braces of the key prefix must be balanced")
	}
	return nil
}
