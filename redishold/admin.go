package redishold

import (
	"context"
	"iter"

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

// List finds the locks with SCAN, on one server or on every master of a cluster. It
// distinguishes locks from other data by their type and layout. The name of a Record is
// without Options.KeyPrefix, and keys without that prefix are left out.
//
// With the layout Plain every short string counts as a lock, with Timestamp every string that
// is a time in seconds. With Redisson's layout, List finds a semaphore by its held permits, and
// a fair lock only while it is held. It lists a key that is only a number, such as a latch,
// only with f.Counters.
//
// The user needs the permissions for SCAN, HSCAN, GETRANGE, LLEN and, in a cluster, CLUSTER
// SLOTS. Without PUBSUB, Record.Listeners is -1. In a cluster, Record.Listeners counts only the
// listeners on sharded channels. Holdfast uses sharded channels there, and Redisson uses them
// from version 3.28 on.
//
// If a node does not answer, its locks are missing, and the error comes at the end.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return listing.List(ctx, b.clients, f)
}

// Get returns one Record for each of `names`, in the same order. On one server, one call to the
// server reads up to 40 names at one instant, with about three commands for each name. In a
// cluster, each name takes one call. The user needs the permissions of List, except SCAN.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	return listing.Get(ctx, b.clients, names...)
}

// Describe returns the Record of one name, as Get does, and all keys that exist for the name,
// whatever the kind of lock. Detail.Token is the value of the counter of Redisson's
// RFencedLock, which Options.SharedTokens also uses. Describe does not read the other counters
// of Holdfast, because each of them belongs to several names. The user needs the permissions of
// Get, and TYPE, STRLEN and ZCARD.
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

// ReadLog returns the entries of clients with the same Options.KeyPrefix. The user needs
// the permission for XRANGE.
func (b *Backend) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	return eventlog.Read(ctx, b.clients, f)
}

// Report stores the holds and waits of a client for operators, in one round trip.
func (b *Backend) Report(ctx context.Context, r driver.Report) error { return b.clients.Report(ctx, r) }

// Drain waits for work in the background: queries for the names of holders, each of which takes
// at most a quarter of a second.
func (b *Backend) Drain(ctx context.Context) error { return b.clients.Drain(ctx) }

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

// ownCalls returns calls of the internal packages as Calls.
func ownCalls(calls []wire.Call) []Call {
	own := make([]Call, len(calls))
	for i, c := range calls {
		own[i] = Call(c)
	}
	return own
}

// doRegistering runs `calls`. It also writes the registrations of the clients that have the
// claims `cs`, if these registrations are due. On one server, the calls and the registrations
// share a round trip. In a cluster, a registration may be on another node than the lock. So
// doRegistering writes the registrations after the calls, for at most InfoTimeout, because a
// failure of that node must not delay the results for long.
func (b *Backend) doRegistering(ctx context.Context, info ServerInfo, calls []Call, cs ...driver.Claim) []Result {
	due, owners := b.clients.Registrations(cs...)
	if !info.Cluster {
		results := b.do(ctx, append(calls, ownCalls(due)...)...)
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
