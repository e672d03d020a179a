package redishold

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/eventlog"
	"github.com/holdfast-go/holdfast/redishold/internal/listing"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

var (
	_ admin.Source    = (*Backend)(nil)
	_ driver.Drainer  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ driver.Reporter = (*Backend)(nil)
)

// List finds the locks with SCAN, on one server or on every master of a cluster. It recognizes
// the key of a lock by the type of the key and by the format of the value. The name in a Record
// is the key without Options.KeyPrefix. List leaves out keys that do not have this prefix.
//
// With the layout Plain, every short string counts as a lock. With the layout Timestamp, every
// string that is a time in seconds counts as a lock. With Redisson's layout, List finds a
// semaphore by the key of its held permits, and a fair lock only while the lock is held. It
// lists a key whose value is only a number, for example the key of a latch, only if f.Counters
// is true.
//
// The user needs the permissions for SCAN, HSCAN, GETRANGE, LLEN and, in a cluster, CLUSTER
// SLOTS. Without the permission for PUBSUB, Record.Listeners is -1. In a cluster,
// Record.Listeners counts only the listeners on sharded channels. Holdfast uses sharded channels
// there, and Redisson uses them from version 3.28 on.
//
// If a node does not answer, List leaves out the locks of that node, and yields the error at the
// end.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return listing.List(ctx, b.clients, f)
}

// Get returns one Record for each of `names`, in the same order. On one server, one call to the
// server reads up to 40 names at one instant, with about three commands for each name. In a
// cluster, each name takes one call. The user needs the permissions that List needs, except the
// one for SCAN.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	return listing.Get(ctx, b.clients, names...)
}

// Describe returns the Record of one name, as Get does. It also returns all keys that exist for
// the name, including the keys of other kinds of lock with that name. Detail.Token is the value
// of the counter of Redisson's RFencedLock, which Options.SharedTokens also uses. Describe does
// not read the other counters of Holdfast, because each of them belongs to several names. The
// user needs the permissions that Get needs, and those for TYPE, STRLEN and ZCARD.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	return listing.Describe(ctx, b.clients, name)
}

// ForceReasons returns for each element of `ended` the reason in the tombstone that ForceUnlock
// has set for the owner, or "" if there is no tombstone. A tombstone exists until the lease
// would have ended, and for at least 10 s. A permit without a known owner has no tombstone.
// ForceReasons sends one command for each owner, up to 200 commands in one call. In a cluster,
// it makes one call for each owner.
func (b *Backend) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	return listing.ForceReasons(ctx, b.clients, ended)
}

// AppendLog adds entries to a stream with one call. The stream keeps the latest
// Options.LogLength entries, and expires a week after the last entry. Rare entries, such as
// losses, are also in a second stream, so that frequent entries do not replace them.
func (b *Backend) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	if b.invalid != nil {
		return b.invalid
	}
	return eventlog.Append(ctx, b.clients, b.options.LogLength, by, entries)
}

// ReadLog returns the entries that clients with the same Options.KeyPrefix have written. The
// user needs the permission for XRANGE.
func (b *Backend) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	return eventlog.Read(ctx, b.clients, f)
}

// Report stores which locks a client holds and waits for, so that operators can see it. Report
// takes one round trip.
func (b *Backend) Report(ctx context.Context, r driver.Report) error { return b.clients.Report(ctx, r) }

// Drain waits until the work in the background has ended. This work is to look up the names of
// holders, and to shorten the TTLs of read-write locks that still have readers. Each call takes at
// most a second.
func (b *Backend) Drain(ctx context.Context) error {
	return errors.Join(b.clients.Drain(ctx), b.trimmer.background.Wait(ctx))
}

func (b *Backend) newClients() *clients.Clients {
	return clients.New(clients.Access{
		Layout: b.layout, Log: b.log, Call: b.call, Script: b.library.Get,
		Do: func(ctx context.Context, calls ...wire.Call) []wire.Result {
			results := b.do(ctx, ownCalls(calls)...)
			answers := make([]wire.Result, len(results))
			for i, r := range results {
				answers[i] = wire.Result(r)
			}
			return answers
		},
		Info: func(ctx context.Context) (wire.Server, error) {
			if b.invalid != nil {
				return wire.Server{}, b.invalid
			}
			info, err := b.ask(ctx)
			return info.wire(), err
		},
	})
}

// ownCalls converts calls of the internal packages to the type Call of this package.
func ownCalls(calls []wire.Call) []Call {
	own := make([]Call, len(calls))
	for i, c := range calls {
		own[i] = Call(c)
	}
	return own
}

// doRegistering runs `calls`. It also writes the registrations of the clients to which the
// claims `cs` belong, if these registrations are due. On one server, the calls and the
// registrations share a round trip. In a cluster, a registration may be on another node than the
// lock. So doRegistering writes the registrations after the calls, for at most InfoTimeout,
// because a failure of that node must not delay the results for long.
func (b *Backend) doRegistering(ctx context.Context, info ServerInfo, calls []Call, cs ...driver.Claim) []Result {
	due, owners := b.clients.Registrations(cs...)
	if !info.Cluster {
		results := b.do(ctx, append(slices.Clip(calls), ownCalls(due)...)...)
		b.registered(owners, results[len(calls):])
		return results[:len(calls)]
	}
	results := b.do(ctx, calls...)
	if len(due) > 0 {
		ctx, cancel := context.WithTimeout(ctx, clients.InfoTimeout)
		defer cancel()
		b.registered(owners, b.do(ctx, ownCalls(due)...))
	}
	return results
}

// registered records which registrations have failed. owners[i] is the client whose
// registration has the result results[i].
func (b *Backend) registered(owners []string, results []Result) {
	for i, client := range owners {
		if err := results[i].Err; err != nil {
			b.clients.Unregistered(client, err)
		}
	}
}
