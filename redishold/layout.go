package redishold

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Layout is the layout of locks in Redis, which a Backend shares with other programs. All
// clients of a name must use the same layout.
type Layout uint8

const (
	// Redisson is the default layout of the keys in Redis. It is the layout of the Java
	// library Redisson. It supports all kinds of lock, and Go and Java programs notify
	// each other of releases.
	Redisson Layout = iota

	// Plain is a string key with the name of the lock and a unique value. It is written
	// with SET NX PX, and deleted and extended only while it has that value. redsync,
	// redislock, node-redlock, the Lock of redis-py and most own recipes use this layout
	// on one server. All of them use the unchanged name (resource, key) and only compare
	// values, so they and Holdfast exclude each other. If another library adds a key
	// prefix, the prefix is a part of the name here.
	//
	// Any string is a holder. A string without a TTL holds forever. A key of another type
	// is driver.ErrMismatch.
	//
	// Only exclusive locks. Only grants of Holdfast have tokens. Other libraries publish
	// no release, so a waiter for one of their locks polls once a second and when the key
	// expires.
	Plain

	// Timestamp is the oldest recipe, for programs that still use it: SETNX of the Unix
	// second at which the lock ends, GETSET to take an expired lock, DEL to unlock.
	// Holdfast writes whole seconds. It also reads fractions from other clients. A value
	// that is not a time in seconds is driver.ErrMismatch.
	//
	// Between clients of Holdfast the clock of the server decides, and old clients do not
	// change that: another key has the holder and its lease. The second that Holdfast
	// writes is never before the end of the lease. A second that Holdfast wrote
	// is past when it begins. A second that an old client wrote is past when the next second
	// begins.
	//
	// Old clients keep the weaknesses of the recipe. They use their own clocks: a client
	// whose clock is ahead by more than the rest of a lease takes the lock. Their DEL
	// deletes the lock of any holder. A GETSET that loses the race for an expired lock
	// still overwrites the value of the winner. Holdfast ignores that if the new time is
	// not earlier than its own, because a client with a correct clock did not win then.
	// An earlier time may belong to a winner, so it ends the hold at its next renewal,
	// like a missing key. So the timeout of the old clients should not be shorter than
	// the TTL of the Locker, and a fence should protect the data.
	//
	// Only exclusive locks, with a TTL of at least one second. Old clients publish no
	// release, see Plain.
	Timestamp
)

// String returns the name of the layout in lower case.
func (p Layout) String() string {
	names := [...]string{Redisson: "redisson", Plain: "plain", Timestamp: "timestamp"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("layout %d", uint8(p))
}

// internalName returns the name for layout.New: "" for Redisson, otherwise that of String.
func (p Layout) internalName() string {
	if p == Redisson {
		return ""
	}
	return p.String()
}

// limits returns info without the capabilities that the layout or Options.Poll excludes.
func (o *Options) limits(info driver.Info) driver.Info {
	info.Caps.Wakes = o.Poll == 0
	if o.Layout != Redisson {
		info.Layout = o.Layout.String()
		info.Caps = driver.Caps{Fencing: true, Wakes: info.Caps.Wakes, ExpiresAlone: true, Tombstones: true, AtLeast: o.Layout == Plain}
	}
	if o.Layout == Timestamp {
		info.MinTTL, info.TTLStep = time.Second, time.Second
	}
	return info
}

// check returns an error if the options are invalid. Every claim then fails with it.
func (o *Options) check() error {
	switch {
	case o.Layout > Timestamp:
		return wire.Refused("redishold options: unknown %s", o.Layout)
	case o.SharedTokens && o.Layout != Redisson:
		return wire.Refused("redishold options: SharedTokens are Redisson's, the layout %s has none", o.Layout)
	case o.Replicas < AllReplicas:
		return wire.Refused("redishold options: %d replicas cannot be asked for", o.Replicas)
	case o.Poll < 0:
		return wire.Refused("redishold options: Poll of %s is negative", o.Poll)
	case o.LogLength < 0:
		return wire.Refused("redishold options: LogLength of %d is negative", o.LogLength)
	}
	return nil
}

// unsupported returns an error if the layout does not have the given kind of lock.
func (b *Backend) unsupported(kind kinds.Kind) error {
	if b.forms.only == nil || kind.Family() == b.forms.only.Family() {
		return nil
	}
	return wire.Refused("the layout %s has exclusive locks only: %w", b.options.Layout, errors.ErrUnsupported)
}
