// Package zkhold keeps locks in ZooKeeper, in the layout of Curator.
//
//	locker, end := zkhold.Locker([]string{"localhost:2181"}, nil)
//	defer end() // the session, and with it all locks
//
// Programs with this package and programs with Curator's InterProcessMutex,
// InterProcessReadWriteLock or InterProcessSemaphoreV2 exclude each other on one path, and get
// the lock in the order of their arrival. Programs with zk.Lock of go-zookeeper take part, too,
// and also programs with kazoo and extra_lock_patterns=["lock-"]. Without that setting kazoo
// ignores other programs.
//
// # Nodes
//
// The path of a lock is its name below Options.Root. For example, the lock "deploy" has the
// path /deploy. The node at this path is a container: ZooKeeper removes it some time after its
// last child. A claim is an ephemeral child of the container, with a sequence number:
//
//	<path>/_c_<session and claim, as a UUID>-lock-0000000007       a mutex
//	<path>/_c_<session and claim, as a UUID>-__WRIT__0000000007    the writer of a read-write lock
//	<path>/_c_<session and claim, as a UUID>-__READ__0000000007    a reader
//	<path>/leases/_c_<session and claim, as a UUID>-p3-lease-0000000007    one of three permits
//	<path>/locks/_c_<session and claim, as a UUID>-lock-0000000007         a waiter for a permit
//
// The name of the node contains an ID of the claim, as with Curator's protection. So this
// package can find the node again if the answer to its creation was lost. The data of the node
// is the note.
//
// The sequence numbers decide which claims hold. The fencing tokens come from czxid, the id of
// the transaction that created the node, shifted by ten bits. Sequence numbers begin again
// with a new container, czxid does not.
//
// The server counts the children of a node up to 2147483647, and then gives the same number to
// all further children. So Try refuses a claim with one of the last million numbers. The error
// is driver.ErrRefused, and contains the path of the node that an operator must delete. Locks
// that are already held are renewed and released as before. This happens only to a name that
// always has claims. If a name has no claims for some time, ZooKeeper removes its container,
// and the count begins again.
//
// Claims of this package contain the number of permits of their semaphore, claims of Curator do
// not. The oldest claim with such a number determines how many permits the semaphore has.
//
// Use a path for one kind of lock only, because a mutex of Curator does not wait for the nodes
// of a read-write lock. If a claim of this package finds an earlier node of another kind, Try
// returns driver.ErrMismatch.
//
// # Names
//
// A path contains the name of its lock unchanged, with these exceptions. Some characters are
// written as bytes in hexadecimal digits, with a percent sign before each byte. These are the
// characters that ZooKeeper does not allow in a path: control characters, characters beyond
// U+D7FF except U+F900 to U+FFEF, bytes that are not UTF-8, and the dots of the elements "."
// and "..". The percent sign itself is also written in this way, and so is the last digit of an
// element that looks like the node of a claim. So is the first letter of /zookeeper, because
// that path belongs to the server. An empty element is written as "%".
//
// # For operators
//
// List scans the tree below Options.Root, with one request for each node and two for each lock.
// If List has no permission to read some nodes, it yields an error at the end that is
// driver.ErrRefused. Get makes one request for each holder and waiter that it shows. The data
// may be a moment old, because any server can answer.
//
// ZooKeeper does not report the remaining time of a session, so Holder.Remaining is
// admin.RemainingUnknown. It does not report the time of a grant, so Hold.HeldFor is 0. The
// owner of a node of another program consists of the session and czxid, and its note is the
// data of the node. The number of permits of a semaphore is known only from claims of this
// package. If there is no such claim, Record.Permits is 0, and every claim with a node in
// "leases" is shown as a holder, even if the claim still waits. A reader of Curator whose
// thread also has the write side is shown as a waiter while the writer holds. Readers of this
// package with the same caller as the writer are not shown until the writer was released. After
// that they are shown as one hold, whose owner is the owner of the writer with ".readers" at
// the end.
//
// ForceUnlock deletes the node of a hold. In the same transaction it writes the reason to the
// node holdfast.forced below Options.Root. That node stays, and has the last reasons as JSON.
// The holder is notified at once. But if the hold is younger than a quarter of a second, the
// holder is notified only when the hold would have reached that age. A holder with the same
// Options.Root reads the reason from holdfast.forced. A program without this package only sees
// that its node was deleted.
//
// # Sessions
//
// A Backend opens one session for all of its locks, with the first lock. The session ends with
// Close, or when the Backend has not used the session for as long as the session timeout.
//
// A claim counts as held until two thirds of the session timeout have passed since the
// last answer of the leader. The reason: a client sends a ping every third of the timeout, and
// a follower first answers a ping, and reports it to the leader later. A holder without a
// connection is notified after two thirds of the timeout, and the server grants the lock again
// only after the whole timeout. A broken connection is not a loss, only an expired session is.
// ZooKeeper reports an expired session only when there is a connection again.
//
// # The client
//
// The package uses github.com/go-zookeeper/zk 1.0.4, and none of its recipes. That client takes
// no contexts, so each call needs a goroutine. If the server does not answer, the package
// closes the connection: after half of the session timeout, or after a ninth of the timeout (at
// least a second) without an answer to a renewal. Then the client tries another server. Calls
// for one claim run one after the other. So if a caller stops waiting for a creation, the
// request of the creation still arrives before the request of the deletion that follows it.
//
// A waiter for a mutex reads the queue when only the holder is left before it, and not again
// when the holder releases. If another program deleted the waiter's own node shortly before,
// the waiter is notified within a quarter of a second.
//
// Taking a free lock needs two requests in one round trip, and its release needs one more
// request. The package replaces the client's request to create a node with a request whose
// answer has czxid, and reads czxid from the connection. It requests watches without the
// client, several with one request. The client has no watches of its own, so it does not renew
// any.
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
	// maxName is the longest name in bytes. It is so small that a path in which all bytes are
	// escaped fits into a packet of 1 MB.
	maxName = 4096
)

// Options are the settings of a Backend. The zero value has the defaults.
type Options struct {
	// TTL is how long all locks of a process stay after the process has died: the timeout of
	// its session. The server rounds it up to a whole number of its ticks, and limits it to
	// 2 to 20 ticks, by default 4 s to 40 s. A holder that cannot reach ZooKeeper loses its
	// locks after two thirds of the TTL. 0 means 30 s.
	TTL time.Duration

	// Root is the path above all names, such as "/locks". "" means the root of ZooKeeper.
	Root string

	// Auth has the credentials of the session.
	Auth []Credentials

	// ACL has the permissions of new nodes. nil means all permissions for everybody, as
	// in Curator. All clients of a lock need the permissions to read, create and delete.
	ACL []zk.ACL

	// Dial opens the connections, for example with TLS. nil means net.DialTimeout.
	Dial zk.Dialer
}

// Credentials are the data of one authentication. For the scheme "digest", Auth is the text
// "user:password".
type Credentials struct{ Scheme, Auth string }

// engine is embedded for its methods.
type engine = ordered.Engine

// Backend is a store of locks in ZooKeeper. It implements driver.Backend,
// driver.Notifier, driver.Drainer and admin.Source. Several goroutines may call its
// methods at once.
//
// Renew confirms the session at the leader, with one call for all claims. If the context of a
// Release ends, the release continues, also after the connection was broken. Notify calls hint
// with 0 when a Renew or a Try has found that the session has expired. If another program
// deletes the node of a claim, Notify calls hint with Claim.Seq. It does so at once or, if the
// node is younger than a quarter of a second, when the node would have reached that age.
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

// Info returns what the store can do.
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

// Try creates a node for c, unless c has one. It grants c if no earlier node excludes c. A
// claim that is not granted keeps its node, unless NoQueue is set. The Outcome of the Try that
// creates the node of c does not name the holder, the Outcome of the next Try does. A claim
// with a TTL below Options.TTL is not renewed. Try returns driver.ErrRefused for such a claim
// if its TTL is more than two thirds of Options.TTL.
//
// If the first node of the queue is not ephemeral, a Try that reads the holder returns
// driver.ErrMismatch, because ZooKeeper never removes such a node.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	if most := valid(b.ttl); c.TTL > most && c.TTL < b.ttl {
		return driver.Outcome{}, refused("zkhold", driver.ErrInvalid, fmt.Errorf("a lease of %v is too long: with a TTL of %v, a lease may be at most %v", c.TTL, b.ttl, most))
	}
	return b.engine.Try(ctx, c)
}

// Drain waits until the watches of closed Waiters have ended. It also waits for calls that
// continue although their contexts have ended. It returns the error of ctx if ctx ends first.
func (b *Backend) Drain(ctx context.Context) error {
	if err := b.engine.Drain(ctx); err != nil {
		return err
	}
	return b.store.tasks.Wait(ctx)
}

// Close ends the session, so all locks that are still held become free at once. Later calls
// return driver.ErrClosed. Close waits until the connection is closed, for a few seconds at
// most. It may be called again. Without Close, the session ends when the Backend has not used
// it for as long as the session timeout. If the program ends, the session ends when the session
// timeout has passed.
func (b *Backend) Close() { b.store.close() }
