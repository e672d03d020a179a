// Package quorum makes one store of several independent ones: a lock is held while a
// majority of them has the hold. This is the algorithm Redlock as a store. Renewals,
// notifications of losses, waiting and all other features of Holdfast work with it.
//
//	backend, err := quorum.Of(redisA, redisB, redisC)
//	locker := holdfast.New(backend, nil)
//
// Its purpose is availability: clients take, hold and release locks while any minority of
// the nodes is down, slow or unreachable. A lock takes one or two round trips to all nodes.
//
// # What it does not do
//
// It has no fencing tokens. Every node has its own counter. The largest token of one
// majority may be smaller than that of an earlier majority, and only a consensus protocol
// could prevent that. A resource that must refuse stale writes needs a store with tokens.
//
// It is not linearizable. Exclusion needs three conditions. The rates of clocks must be about
// equal; the allowed drift is 1 percent of the lease plus 2 ms. No one may set the wall clocks
// of Redis servers forward. Nodes must keep what they acknowledged. Only at a restart a node
// may forget that, because a restarted node does not vote until it has been up for the time
// Options.MaxTTL. If keys are deleted by hand or evicted on a majority of nodes, the lock is
// lost.
//
// Read-write locks, semaphores and fair locks are refused, because majorities of counts
// and queues do not make one count or one queue.
//
// All programs must use the same nodes, in any order.
//
// Nodes may be different stores. etcd and ZooKeeper are refused: their servers are a
// majority already, and their sessions keep a lock for longer than its lease.
//
// # Background work
//
// A call returns as soon as its result is certain. Calls to further nodes continue in the
// background: for a few seconds at most if they take a lock, and for the TTL of the lock at
// most if they release it. Drain waits for these calls.
package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/background"
)

// Options are the settings of New. The zero value has the defaults.
type Options struct {
	// MaxTTL is the longest lease on these nodes. All programs must use the same value. A node
	// may forget locks when it restarts. So the vote of a restarted node counts only after the
	// node has been up for the time MaxTTL. If a majority of the nodes restarts at the same
	// time, no program gets a lock until that time has passed. With TrustRestarts the vote of a
	// restarted node counts at once. MaxTTL is at most 100 years. Default 1 minute.
	MaxTTL time.Duration

	// TrustRestarts means that nodes keep every acknowledged lock across a restart
	// (Redis: appendonly yes, appendfsync always). Their votes then count at once, and a
	// lock takes one round trip less.
	TrustRestarts bool
}

const defaultMaxTTL = time.Minute

// longest is the largest value of MaxTTL. A time.Duration can represent it together with the
// drift of clocks, and no server runs for so long.
const longest = 100 * 365 * 24 * time.Hour

// Incarnator is an optional interface of a member that may forget locks when it restarts: it
// reports restarts. The quorum assumes that a member that is no Incarnator does not forget
// locks.
type Incarnator interface {
	// Incarnation returns an id that is different for every server and every start of it. The
	// result `uptime` is the time since that start, or a shorter time.
	Incarnation(ctx context.Context) (id string, uptime time.Duration, err error)
}

// Backend is a driver.Backend that consists of several stores.
type Backend struct {
	nodes    []*node
	majority int
	info     driver.Info
	trusting bool

	background background.Group
	checked    atomic.Bool   // the method distinct has found that no two nodes are the same server
	checking   chan struct{} // capacity 1: one caller of distinct at a time asks the nodes

	mu     sync.Mutex
	open   map[claimID]*attempt
	ended  map[claimID]time.Time // claims that were given up; tries of them are refused until this time
	number uint64                // the number of the last attempt
	calls  int                   // the number of calls since sweep last removed expired entries
}

var _ driver.Backend = (*Backend)(nil)

// Of returns New(backends, nil).
func Of(backends ...driver.Backend) (*Backend, error) { return New(backends, nil) }

// New returns a Backend that consists of the given backends, which the caller still owns. Their
// number must be odd, they must be different, and their locks must expire. Members that keep
// the locks of a client in a session, such as etcd, are refused. New does no I/O. If the
// members are Incarnators, the first lock returns an error if two of them are the same server.
// opts may be nil.
func New(backends []driver.Backend, opts *Options) (*Backend, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case opts.MaxTTL < 0:
		return nil, fmt.Errorf("quorum: MaxTTL is negative: %v", opts.MaxTTL)
	case opts.MaxTTL > longest:
		return nil, fmt.Errorf("quorum: MaxTTL of %v is too long: at most %v", opts.MaxTTL, longest)
	}
	if err := usable(backends); err != nil {
		return nil, fmt.Errorf("quorum: %w", err)
	}
	b := &Backend{
		majority: len(backends)/2 + 1,
		trusting: opts.TrustRestarts,
		checking: make(chan struct{}, 1),
		open:     map[claimID]*attempt{},
		ended:    map[claimID]time.Time{},
	}
	for i, member := range backends {
		b.nodes = append(b.nodes, newNode(member, i+1, len(backends)))
	}
	b.info = combine(b.nodes, opts.MaxTTL)
	return b, nil
}

// usable returns an error that says why the backends cannot be a quorum, or nil if they can.
func usable(backends []driver.Backend) error {
	if len(backends) == 0 {
		return errors.New("no backends")
	}
	for i, b := range backends {
		v := reflect.ValueOf(b)
		if b == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("backend %d is nil", i+1)
		}
		for j := range i {
			if v.Kind() == reflect.Pointer && b == backends[j] {
				return fmt.Errorf("backends %d and %d are the same", j+1, i+1)
			}
		}
		switch info := b.Info(); {
		case !info.Caps.ExpiresAlone:
			return fmt.Errorf("backend %d (%s) does not end a lock whose holder is gone", i+1, info.Name)
		case info.SessionTTL > 0:
			return fmt.Errorf("backend %d (%s) keeps locks in sessions: its servers are a quorum already, so use it alone", i+1, info.Name)
		}
	}
	if len(backends)%2 == 0 {
		return fmt.Errorf("%d backends: an even number survives no more failures than one less", len(backends))
	}
	return nil
}

// combine returns the Info of the quorum: the features that all nodes have, and the strictest
// of their limits.
func combine(nodes []*node, maxTTL time.Duration) driver.Info {
	all := driver.Info{
		Name:   "quorum",
		Caps:   driver.Caps{Wakes: true, ExpiresAlone: true, Tombstones: true},
		MinTTL: 10 * time.Millisecond, // the drift would be too large a part of a shorter lease
		MaxTTL: maxTTL,
	}
	if maxTTL == 0 {
		all.MaxTTL = defaultMaxTTL
	}
	for _, n := range nodes {
		info := n.member.Info()
		all.Caps.Wakes = all.Caps.Wakes && info.Caps.Wakes
		all.Caps.Tombstones = all.Caps.Tombstones && info.Caps.Tombstones
		all.MinTTL = max(all.MinTTL, info.MinTTL)
		all.TTLStep = max(all.TTLStep, info.TTLStep)
		if info.MaxTTL > 0 {
			all.MaxTTL = min(all.MaxTTL, info.MaxTTL)
		}
		if info.MaxName > 0 && (all.MaxName == 0 || info.MaxName < all.MaxName) {
			all.MaxName = info.MaxName
		}
	}
	return all
}

// Info returns what the store can do: the features that all members have, without fencing,
// read-write locks, semaphores, fairness and hold counts. MaxTTL is Options.MaxTTL, or the
// smallest MaxTTL of a member if that one is smaller.
func (b *Backend) Info() driver.Info { return b.info }

// Drain waits until the background work of the quorum and of its members has ended, and
// returns nil. If ctx ends first, it returns the error of ctx. If a program ends without
// Drain, a lock whose release is still under way at a node stays there until its lease
// expires.
func (b *Backend) Drain(ctx context.Context) error {
	errs := []error{b.background.Wait(ctx)}
	for _, n := range b.nodes {
		if member, ok := n.member.(driver.Drainer); ok {
			errs = append(errs, member.Drain(ctx))
		}
	}
	return cmp.Or(errs...)
}

// drift returns by how much two clocks may differ over a lease of d.
func drift(d time.Duration) time.Duration { return d/100 + 2*time.Millisecond }
