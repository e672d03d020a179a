// Package etcdhold keeps locks in etcd, in the layout of etcd's package concurrency.
//
//	locker := etcdhold.Locker(client, nil) // client is a *clientv3.Client
//
// Programs with this package, programs with concurrency.Mutex, etcdctl lock and jetcd
// exclude each other on one name, and get the lock in the order of their arrival.
//
// # Keys
//
// A claim is a key below the name of its lock. etcd removes the key when the lease of the
// claim's process ends:
//
//	<name>/<lease, hexadecimal>-<kind>-<number, 16 hexadecimal digits>    the note, and a line with the owner
//
// The number is the lowest that no other claim of the process has for this name. So claims
// that follow each other have the same key. That matters because etcd keeps deleted keys until
// the next compaction, and reads them again for each read of a queue.
//
// The kind is x for a mutex, r and w for the sides of a read-write lock, and p3 for one of
// three permits. In a key of another program, only the ID of its lease is after the last slash.
// Such a key is exclusive, for a lock of every kind. The oldest claim of a semaphore determines
// how many permits the semaphore has.
//
// The create revisions of the keys decide which claims hold. The fencing token of a claim is
// the create revision of its key, shifted by ten bits. The tokens of other programs are create
// revisions that are not shifted, so do not compare them with tokens of this package.
//
// # Names
//
// For programs with this package, a name with a slash is an ordinary name. Other programs treat
// every key below "job/" as a claim of "job", so for them "job" waits for the holder of
// "job/1". Do not use a slash in names that you share with them. Do not use the name of an
// election: the programs of the election would take the key of a lock for the key of their
// leader. Names must not begin with "holdfast.forced/", which is for the reasons of forced
// unlocks.
//
// # Leases
//
// A Backend has one lease of etcd for all of its locks, because granting a lease is a write to
// all members. Renewals extend the lease. If nothing has extended it for some time, the next
// lock extends it. The Backend does not revoke the lease, so the lease ends some time after its
// last extension.
//
// If a name stays taken after its release, see driver.Caps.AtLeast, its key gets a lease of its
// own. The TTL of that lease is rounded up to whole seconds. A server with its default settings
// grants two seconds at least, so 0.3 s become 2 s. The create revision of the key stays, so
// the key is before the keys of all waiters.
//
// The server must be 3.5.23 or newer. A server of version 3.6 must be 3.6.5 or newer. Older
// servers may report that they extended a lease although it was revoked.
//
// # For operators
//
// List yields the locks of this package and of other programs. It reads the keys that begin
// with admin.Filter.NamePrefix. It reads the value of a key only if the key looks like that of
// a lock. admin.Filter.Counters has no effect. Get makes one request for each name and one for
// each lease. Keys of other programs are holders and waiters, too. The owner of such a key
// consists of its lease and its create revision. Hold.Remaining is rounded up to seconds.
// Hold.HeldFor is 0, because etcd does not report it. Readers with the same caller as the
// writer are not shown until the writer was released. After that they are shown as one hold,
// whose owner is the owner of the writer with ".readers" at the end. Record.Listeners is -1.
// Describe also returns the keys of the lock. Detail.Token is 0, but the holds have tokens.
//
// ForceUnlock deletes the key of exactly one hold. It writes the reason to a key below
// "holdfast.forced/". The etcd user needs the permission to write there. The key with the
// reason stays for a minute, or for the TTL of the holder's lease if that is longer. After
// that, ForceReasons returns "" for the hold. The holder is notified at once if it listens, and
// else at its next renewal. Programs without this package only see that the key was deleted.
package etcdhold

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/admin"
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

// engine is embedded for its methods.
type engine = ordered.Engine

// Backend is a store of locks in etcd. It implements driver.Backend, driver.Notifier,
// driver.Drainer and admin.Source. Several goroutines may call its methods at once.
//
// Try creates a key for the claim, unless the claim has one. It grants the claim if no older
// key excludes it. A claim that is not granted keeps its key, unless NoQueue is set. The first
// Try asks all servers for their versions, and returns an error if a server is too old. If a
// key of the name has no lease, Try returns driver.ErrMismatch, because etcd never removes such
// a key.
//
// Renew extends the lease, with one call for all concurrent callers, and checks that the keys
// of the claims exist, up to a hundred keys in each call. The result of a claim without a key
// is a *driver.GoneError. Once in each third of the TTL, Renew also lists the keys of the
// lease, and deletes the keys that no claim needs. Release deletes the key. But if
// Claim.AtLeast is set, the key stays for that time, with a lease of its own. Release returns a
// *driver.GoneError if there was no key.
//
// A Waiter watches the keys that its claim waits for and, in a long wait, the key of the claim.
// When a key that the claim waits for is deleted, the Waiter reads the queue, and returns the
// grant if the claim holds. All watches of one clientv3.Client share one stream, which ends
// with the last watch. Drain waits until the watches of closed Waiters have ended.
//
// Notify calls hint with 0 when a Renew or a Try has found that the lease has ended. If a
// ForceUnlock of any program ends a claim of the client, Notify calls hint with the Claim.Seq
// of that claim. To find out, it watches the keys below "holdfast.forced/". Without the
// permission to read these keys, Notify reports only the end of the lease.
//
// The package comment describes List, Get, Describe and ForceUnlock. There is no event log:
// AppendLog and ReadLog return errors.ErrUnsupported.
type Backend struct {
	*engine
	ttl time.Duration
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ driver.Drainer  = (*Backend)(nil)
	_ admin.Source    = (*Backend)(nil)
)

// New returns a Backend over client. The caller closes client after the last use of the
// Backend. New does no I/O. opts may be nil.
//
// If the client has no answer to a renewal after two thirds of the time that the renewal may
// take, the Backend also makes the renewal over a new connection with the settings of the
// client. It closes that connection afterwards.
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
