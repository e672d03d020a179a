// Package etcdhold keeps locks in etcd, in the layout of its package concurrency.
//
// Programs with this package, programs with concurrency.Mutex, etcdctl lock and jetcd
// exclude each other on one name, and get the lock in the order of their arrival.
//
// # Keys
//
// A claim is a key below its name, and ends with the lease of its process:
//
//	<name>/<lease, hexadecimal>-<kind>-<number, 16 hexadecimal digits>    the note, and a line with the owner
//
// The number is the lowest that no other claim of the process has for this name. So claims
// that follow each other have the same key. That matters because etcd keeps deleted keys until
// the next compaction, and reads them again for each read of a queue.
//
// The kind is x for a mutex, r and w for the sides of a read-write lock, and p3 for one
// of three permits. Keys of other programs end with their lease: they are exclusive, for
// every kind. The number of permits is that of the oldest claim.
//
// The create revisions of the keys decide which claims hold. Shifted by ten bits, they are the
// fencing tokens. Tokens of other programs are unshifted revisions, so do not compare
// them with those of this package.
//
// # Names
//
// For programs with this package, a name with a slash is an ordinary name. Other programs
// treat every key below "job/" as a claim of "job", so for them "job" waits for the
// holder of "job/1". Do not use a slash in names that you share with them. Do not use the
// name of an election: its programs would read the leader from the key of a lock. Names must
// not begin with "holdfast.forced/", which is for the reasons of forced unlocks.
//
// # Leases
//
// A Backend has one lease of etcd for all of its locks, because granting a lease is a
// write to all members. Renewals extend the lease. If nothing has extended it for some time,
// the next lock extends it. The Backend does not revoke the lease: it ends when nothing
// extends it any more.
//
// The key of a name that stays taken after its release, see driver.Caps.AtLeast, gets a
// lease of its own, in whole seconds. With its default settings, the server grants two
// seconds at least: 0.3 s become 2 s. The create revision stays, so that the key is before
// those of all waiters.
//
// The server must be 3.5.23 or newer, of 3.6 at least 3.6.5. Older servers may report
// that they extended a lease although it was revoked.
package etcdhold

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/ordered"
)

const (
	defaultTTL = 30 * time.Second
	// maxName is the longest name in bytes. It leaves room in a request for the keys of other
	// names, and in a queue for the keys of other programs.
	maxName = 4096
)

// Options are the settings of a Backend. The zero value has the defaults.
type Options struct {
	// TTL is how long all locks of a process stay after the process has died: the TTL of its
	// lease in etcd, rounded up to whole seconds. The server may grant a longer TTL. 0 means
	// 30 s.
	TTL time.Duration
}

// Backend is a store of locks in etcd. It implements driver.Backend, driver.Notifier,
// driver.Drainer and admin.Source. Several goroutines may call its methods at once.
type Backend struct {
	engine *ordered.Engine
	ttl    time.Duration
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ driver.Drainer  = (*Backend)(nil)
)

// New returns a Backend over client. The caller closes client after the last use of the
// Backend. New does no I/O. opts may be nil.
//
// If client has no answer to a renewal after two thirds of the time that the renewal may
// take, the Backend also makes the renewal over a new connection with the settings of client.
// It closes that connection afterwards.
func New(client *clientv3.Client, opts *Options) *Backend {
	ttl := defaultTTL
	if opts != nil && opts.TTL > 0 {
		ttl = (opts.TTL + time.Second - 1).Truncate(time.Second)
	}
	return &Backend{engine: ordered.New(&store{client: client, extra: &extraConns{client: client}, ttl: ttl}), ttl: ttl}
}

// Info returns what the store can do.
func (b *Backend) Info() driver.Info {
	return driver.Info{
		Name: "etcd",
		Caps: driver.Caps{
			Shared:       true,
			Permits:      true,
			Fair:         true,
			Fencing:      true,
			Wakes:        true,
			ExpiresAlone: true,
			AtLeast:      true,
		},
		SessionTTL:    b.ttl,
		SessionOption: "etcdhold.Options.TTL",
		MaxTTL:        b.ttl,
		MaxName:       maxName,
		Recheck:       b.ttl,
		MaxTokens:     ordered.MaxTokens,
	}
}

// Try creates a key for c, unless it has one, and grants c if no older key excludes it. A
// claim that is not granted keeps its key, unless NoQueue is set. The first Try asks all
// servers for their versions, and returns an error if one is too old.
//
// If a key of the name has no lease, Try returns driver.ErrMismatch, because etcd never
// removes such a key.
func (b *Backend) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	return b.engine.Try(ctx, c)
}

// Renew extends the lease, with one call for all concurrent callers, and checks that the keys
// of cs exist, a hundred keys in each call. The result of a claim without a key is a
// *driver.GoneError. Once in a third of the TTL Renew lists the keys of the lease, and
// deletes those that no claim needs.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	return b.engine.Renew(ctx, cs)
}

// Release deletes the key of c. If c.AtLeast is set, the key stays for that time, with a lease
// of its own. Release returns a *driver.GoneError if c had no key.
func (b *Backend) Release(ctx context.Context, c driver.Claim) error {
	return b.engine.Release(ctx, c)
}

// Waiter returns a Waiter for c. It watches the keys that c waits for and, in a long wait, the
// key of c. When a key that c waits for is deleted, it reads the queue, and returns the grant
// if c holds. All watches of a client share one stream, which ends with the last watch.
func (b *Backend) Waiter(c driver.Claim) driver.Waiter { return b.engine.Waiter(c) }

// Notify calls hint with 0 when a renewal or a try has found that the lease has ended. It
// calls hint with Claim.Seq of each claim of client that a ForceUnlock of any program has
// ended: it watches the keys below "holdfast.forced/". Without the permission to read these
// keys it reports only the end of the lease.
func (b *Backend) Notify(ctx context.Context, client string, hint func(seq uint64)) error {
	return b.engine.Notify(ctx, client, hint)
}

// Drain waits until the watches of closed Waiters have ended.
func (b *Backend) Drain(ctx context.Context) error { return b.engine.Drain(ctx) }
