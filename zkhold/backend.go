// Package zkhold keeps locks in ZooKeeper, in the layout of Curator.
//
// A program that uses this package and one that uses Curator's InterProcessMutex,
// InterProcessReadWriteLock or InterProcessSemaphoreV2 exclude each other on one path, and
// are served in the order in which they came. So do zk.Lock of go-zookeeper, and kazoo, if
// its locks are made with extra_lock_patterns=["lock-"]: without that kazoo does not see
// other programs.
//
// # Nodes
//
// The path of a lock is its name below Options.Root: "deploy" is /deploy. It is a
// container, which ZooKeeper removes some time after its last child. A claim is an
// ephemeral child of it with a sequence number:
//
//	<path>/_c_<session and claim, as a UUID>-lock-0000000007       a mutex
//	<path>/_c_<session and claim, as a UUID>-__WRIT__0000000007    the writer of a read-write lock
//	<path>/_c_<session and claim, as a UUID>-__READ__0000000007    a reader
//	<path>/leases/_c_<session and claim, as a UUID>-p3-lease-0000000007    one of three permits
//	<path>/locks/_c_<session and claim, as a UUID>-lock-0000000007         a waiter for one
//
// The claim stands in the name of the node, as it does with Curator's protection: a node
// whose creation was not answered is found again by it. The data is the note.
//
// The holder follows from the sequence numbers. The fencing tokens come from czxid, the
// number of the transaction that made the node, shifted by ten bits: sequence numbers
// begin again with a new container, czxid does not.
//
// The number of permits is that of the oldest claim that says one; Curator's do not.
//
// A path belongs to one kind of lock. A mutex of Curator does not wait for the nodes of a
// read-write lock; this package answers driver.ErrMismatch to a claim that finds a node of
// another kind before its own.
//
// # Names
//
// A name is the path unchanged. What ZooKeeper does not allow in a path is written as
// the bytes in hexadecimal digits, each after a percent sign, and so is the percent sign
// itself: control characters, characters beyond U+D7FF but for U+F900 to U+FFEF, bytes
// that are no UTF-8, the elements "." and "..". An empty element is a lone percent sign.
// So are the last digit of an element that looks like the node of a claim, and the first
// letter of /zookeeper, which is the server's.
//
// # For people
//
// A list walks the tree below Options.Root, with one request for each node and two for each
// lock, and ends with an error that is driver.ErrRefused if there were nodes that it may not
// read. Get asks once for each holder and waiter that it shows. What is read may be moments
// old, as the server knows it that answers.
//
// ZooKeeper does not say what is left of a session, so Holder.Remaining is negative; nor
// since when a lock is held. Nodes of other programs have an owner that is made of the
// session and czxid, and the data as their note. How many permits a semaphore has is known
// only from claims of this package; without one Record.Permits is 0, and a claim with a node
// in leases is shown as a holder, also the one that may still wait there. A reader of
// Curator beside its own writer is shown as a waiter while the writer holds. Readers of
// this package beside the writer of the same caller are not shown until the writer has
// left; then they are one hold, with the owner of the writer.
//
// ForceUnlock removes the node of a hold, and writes the reason in the same transaction to
// the node holdfast.forced below Options.Root, which stays, and keeps the last reasons. Its
// data is JSON. The holder is notified at once, in the first quarter of a second of its
// hold when that is over, and finds the reason there if it has the same root; a program
// that does not use this package finds its node removed.
//
// # Sessions
//
// A Backend opens one session for all of its locks, with the first of them, and ends it
// when it was not used for the session's time, or with Close.
//
// A claim counts as held for two thirds of the session's time after the last answer of the
// leader: a client pings every third of it, and a server that is no leader reports to the
// leader later than it answers. A holder that is cut off is notified then, and the server
// gives the lock to another only when all of the time has passed. That the connection is
// broken is no loss; only an expired session is one, and ZooKeeper says so only when the
// connection is back.
//
// # The client
//
// The package uses github.com/go-zookeeper/zk 1.0.4, and none of its recipes. That client
// knows no contexts, so each call runs in a goroutine of its own, which ends with the
// call: after half of the session's time at the latest, since the connection is given up
// then if the server says nothing, and after a ninth of it, or a second, if that is longer,
// without an answer to a renewal. Another server is tried then. Calls about one claim go one after the other, so no
// creation that was given up comes after the removal that follows it.
//
// A lock that is free costs two requests in one round trip, its release one more. The
// client's request for a node is sent as one whose answer has czxid, which is read off the
// connection.
package zkhold

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

const (
	defaultTTL = 30 * time.Second
	// maxName leaves room in a packet of 1 MB for the most that escapes make of it.
	maxName = 4096
)

// Options are the settings of a Backend. The zero value has the defaults.
type Options struct {
	// TTL is how long all locks of a process stay after its death: the timeout of its
	// session. The server rounds it up to its next tick, and limits it to 2 to 20 ticks,
	// by default 4 s to 40 s. A holder that cannot reach ZooKeeper loses its locks after
	// two thirds of it. 0 means 30 s.
	TTL time.Duration

	// Root is the path above all names, such as "/locks". "" means the root.
	Root string

	// Auth has the credentials of the session.
	Auth []Credentials

	// ACL has the permissions of new nodes. nil means all permissions for everybody, as
	// in Curator. All clients of a lock need the permissions to read, create and delete.
	ACL []zk.ACL

	// Dial opens the connections, for example with TLS. nil means net.DialTimeout.
	Dial zk.Dialer
}

// Credentials are the data of an authentication: for the scheme "digest" the text
// "user:password".
type Credentials struct{ Scheme, Auth string }

// engine is embedded for its methods.
type engine = ordered.Engine

// Backend is a store of locks in ZooKeeper. It implements driver.Backend,
// driver.Notifier, driver.Drainer and admin.Source. Several goroutines may call its
// methods at once.
//
// Renew confirms the session at the leader, with one call for all claims. If the context
// of a Release ends, the release continues, also after the connection was broken. Notify
// calls hint with 0 when a renewal or a try has found that the session has expired, and
// with each claim whose node another program has deleted: at once or, in the first
// quarter of a second of a claim, at the end of that time.
//
// The package comment describes List, Get, Describe and ForceUnlock. There is no event
// log: AppendLog and ReadLog return errors.ErrUnsupported.
type Backend struct {
	*engine
	store *store
	ttl   time.Duration
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ driver.Drainer  = (*Backend)(nil)
	_ admin.Source    = (*Backend)(nil)
)

// New returns a Backend over the servers of one ensemble, each "host:port" or "host". It
// does no I/O: the first lock connects. opts may be nil.
func New(servers []string, opts *Options) *Backend {
	s := &store{servers: servers}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.TTL <= 0 {
		s.opts.TTL = defaultTTL
	}
	return &Backend{engine: ordered.New(s), store: s, ttl: s.opts.TTL}
}

// Info describes the store.
func (b *Backend) Info() driver.Info {
	return driver.Info{
		Name: "ZooKeeper",
		Caps: driver.Caps{
			Shared:       true,
			Permits:      true,
			Fair:         true,
			Fencing:      true,
			Wakes:        true,
			ExpiresAlone: true,
		},
		SessionTTL:    b.ttl,
		SessionOption: "zkhold.Options.TTL",
		MaxTTL:        b.ttl,
		MaxName:       maxName,
		Recheck:       b.ttl,
		MaxTokens:     ordered.MaxTokens,
	}
}

// Try creates a node for c, unless it has one, and grants c if no earlier node excludes
// it. A claim that is not granted keeps its node, unless NoQueue is set. The Outcome
// names the holder, except for a Try that has just created its node: the next Try does. A
// claim with a TTL below that of the session, which is not renewed, is refused if its TTL
// is more than two thirds of the session timeout.
//
// If there is a node of a lock below the name that is not ephemeral, a Try that reads the
// holder returns driver.ErrMismatch, because such a node never ends.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if most := valid(b.ttl); c.TTL > most && c.TTL < b.ttl {
		return driver.Outcome{}, refused("zkhold", fmt.Errorf("a lease of %v: with a TTL of %v one may be %v at most", c.TTL, b.ttl, most))
	}
	return b.engine.Try(ctx, c)
}

// Drain waits for work in the background: watches of closed Waiters, and calls whose
// callers gave up.
func (b *Backend) Drain(ctx context.Context) error {
	if err := b.engine.Drain(ctx); err != nil {
		return err
	}
	return b.store.tasks.Wait(ctx)
}

// Close ends the session, so all locks that are still held become free at once. Later
// calls return driver.ErrClosed. Close waits until the connection is closed, for a few
// seconds at most. It may be called again. Without Close, the session ends when it has
// not been used for the TTL, and with the program.
func (b *Backend) Close() { b.store.close() }
