package redishold

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// Layout is how a Backend keeps its locks in Redis: the layout that it shares
// with other programs. All clients of a name must use the same one.
type Layout uint8

const (
	// Redisson is the layout of Redisson for Java, and the default: all kinds of
	// lock, with wake-up messages that both sides understand.
	Redisson Layout = iota

	// Plain is a string key with the lock's name and a unique value, written with
	// SET NX PX, deleted and extended only while it still has that value. It is
	// how redsync, redislock, node-redlock, the Lock of redis-py and most own
	// recipes keep a lock on one server; all of them use the name (resource, key)
	// as it is and compare values for equality only, so they and Holdfast exclude
	// each other. A lock that another library created with a key prefix of its own
	// has that prefix in its name.
	//
	// Any string is a holder: one without a TTL holds forever. A key of another
	// type is driver.ErrMismatch.
	//
	// Exclusive locks only. Tokens come with Holdfast's own grants; other
	// libraries draw none, and do not publish a release, so a waiter behind one of
	// their locks asks once a second and when the key expires.
	Plain

	// Timestamp is the oldest recipe: SETNX of the Unix second at which the lock
	// ends, GETSET to take over a time that is past, DEL to unlock; for programs
	// that still run it. The value is in whole seconds; of another client a
	// fraction is understood, and what is no time in seconds is
	// driver.ErrMismatch.
	//
	// Between Holdfast's clients the server's clock decides, and old clients
	// cannot shake that: a key beside the lock says its holder and for how long.
	// Its second never comes before the lease is over. A second that Holdfast
	// wrote is past when it begins; one that an old client wrote, when the next
	// one begins.
	//
	// What old clients do keeps the recipe's own weaknesses. They trust their own
	// clocks: one that runs ahead by more than is left of a lease takes the lock
	// away. Their DEL deletes the lock of any holder. And a GETSET that loses the
	// race for a past time still overwrites the winner's. Holdfast puts up with
	// that if the new time is not earlier than its own: its own time was not past,
	// so a client that overwrote it with a right clock did not win. An earlier time may
	// be a winner's, and ends the hold at its next renewal, as a missing key does.
	// So let the old clients' timeout be no shorter than the Locker's TTL, and
	// fence what must not be written twice.
	//
	// Exclusive locks only, with a TTL of at least one second. Old clients do not
	// publish a release, see Plain.
	Timestamp
)

// String returns the protocol's name in lower case.
func (p Layout) String() string {
	names := [...]string{Redisson: "redisson", Plain: "plain", Timestamp: "timestamp"}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// own is p's name if it is not Redisson's, else "".
func (p Layout) own() string {
	if p == Redisson {
		return ""
	}
	return p.String()
}

// limits takes from info what the protocol and the way of waiting do not have.
func (o *Options) limits(info driver.Info) driver.Info {
	info.Caps.Wakes = o.Poll == 0
	if o.Layout != Redisson {
		info.Caps = driver.Caps{Fencing: true, Wakes: info.Caps.Wakes, ExpiresAlone: true, Tombstones: true}
	}
	if o.Layout == Timestamp {
		info.MinTTL, info.TTLStep = time.Second, time.Second
	}
	return info
}

// check returns what is wrong with o, as the error of every lock.
func (o *Options) check() error {
	switch {
	case o.Layout > Timestamp:
		return wire.Refused("redishold options: unknown %s", o.Layout)
	case o.SharedTokens && o.Layout != Redisson:
		return wire.Refused("redishold options: SharedTokens are Redisson's, protocol %s has none", o.Layout)
	case o.Replicas < AllReplicas:
		return wire.Refused("redishold options: %d replicas cannot be asked for", o.Replicas)
	case o.Poll < 0:
		return wire.Refused("redishold options: Poll of %s is negative", o.Poll)
	case o.LogLength < 0:
		return wire.Refused("redishold options: LogLength of %d is negative", o.LogLength)
	}
	return nil
}

// unsupported says that the protocol has no locks of kind k.
func (b *Backend) unsupported(k kinds.Kind) error {
	if b.forms.own == nil || k.Family() == b.forms.own.Family() {
		return nil
	}
	return wire.Refused("protocol %s has exclusive locks only: %w", b.options.Layout, errors.ErrUnsupported)
}
