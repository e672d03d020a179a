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

	// Plain keeps a lock in a string key that has the name of the lock and a unique value. The
	// key is written with SET NX PX. It is deleted or extended only while it has that value.
	// redsync, redislock, node-redlock, the Lock of redis-py and most recipes that programs
	// implement themselves use this layout on one server. All of them use the unchanged name
	// (resource, key) and only compare values, so they and Holdfast exclude each other. If
	// another library adds a key prefix, the prefix is a part of the name here.
	//
	// Any string counts as a holder: the lock is held until the TTL of the string ends, or
	// forever if it has no TTL. If the key is not a string, Try fails with driver.ErrMismatch.
	//
	// The layout has only exclusive locks. Only grants of Holdfast have tokens. Other libraries
	// publish no message about a release. So, while another library holds the lock, a waiter
	// tries again once a second, and when the key expires.
	Plain

	// Timestamp is the oldest recipe, for programs that still use it: SETNX of the Unix second
	// at which the lock ends, GETSET to take an expired lock, DEL to unlock. Holdfast writes
	// whole seconds. It also reads fractions from other clients. If the value is not a time in
	// seconds, Try fails with driver.ErrMismatch.
	//
	// Between clients of Holdfast, only the clock of the server decides when a lease ends, even
	// if old clients use the same lock. For that purpose a second key, which old clients do not
	// know, has the holder and its lease. The second that Holdfast writes is never before the
	// end of the lease. For Holdfast, a lock that Holdfast wrote is expired when the written
	// second begins. A lock that an old client wrote is expired when the written second is over.
	//
	// Old clients keep the weaknesses of the recipe. They use their own clocks. So an old client
	// takes a lock too early if its clock is ahead by more than the remaining time of the lease.
	// Their DEL deletes the lock of any holder. A GETSET that loses the race for an expired lock
	// still overwrites the value of the winner. If a client of Holdfast then finds a time that
	// is not earlier than the time it wrote itself, the client keeps its hold, because an old
	// client with a correct clock cannot have won in this case. An earlier time may be that of a
	// winner. So if a client of Holdfast finds an earlier time, or no key, at a renewal, its
	// hold is lost. For these reasons, the timeout of the old clients should not be shorter than
	// the TTL of the Locker, and a fence should protect the data.
	//
	// The layout has only exclusive locks, with a TTL of at least one second. Old clients
	// publish no message about a release; the comment of Plain describes what waiters do then.
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

// internalName returns the name for layout.New: "" for Redisson, otherwise the result of
// String.
func (p Layout) internalName() string {
	if p == Redisson {
		return ""
	}
	return p.String()
}

// limits returns `info` without the capabilities that the layout or Options.Poll excludes. The
// result also has the name of the layout and the limits of the TTLs in that layout.
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

// check returns an error if the options are invalid. In this case every claim fails with that
// error.
func (o *Options) check() error {
	switch {
	case o.Layout > Timestamp:
		return wire.Refused("redishold options: unknown %s", o.Layout)
	case o.SharedTokens && o.Layout != Redisson:
		return wire.Refused("redishold options: SharedTokens is for the layout Redisson, and not for the layout %s", o.Layout)
	case o.Replicas < AllReplicas:
		return wire.Refused("redishold options: Replicas of %d is not a number of replicas", o.Replicas)
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
