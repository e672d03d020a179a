package redishold

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/eventlog"
	"github.com/holdfast-go/holdfast/redishold/internal/listing"
)

var (
	_ admin.Source    = (*Backend)(nil)
	_ driver.Drainer  = (*Backend)(nil)
	_ driver.Notifier = (*Backend)(nil)
	_ driver.Reporter = (*Backend)(nil)
)

// List walks over what is locked, with SCAN: on one server, or on every master of
// a cluster. It distinguishes locks from other data by their type and layout; the name of
// a Record is without Options.KeyPrefix, and keys without that prefix are left out.
//
// With the protocols Plain and Timestamp every short string, and every time in
// seconds, is a lock. With Redisson's, a semaphore is found by the permits that
// are out, and a fair lock only while it is held. Bare counters are looked for
// only where f.Counters asks for them.
//
// The user needs the rights to SCAN, HSCAN, GETRANGE, LLEN and, in a cluster,
// CLUSTER SLOTS. Without PUBSUB Record.Listeners is -1. In a cluster it counts
// those who listen on sharded channels, as Holdfast and Redisson from 3.28 do.
//
// A node that does not answer leaves its locks out; the error comes at the end.
func (b *Backend) List(ctx context.Context, f admin.Filter) iter.Seq2[admin.Record, error] {
	return listing.List(ctx, b.clients, f)
}

// Get returns what is kept of names, in the same order. On one server a call
// reads 40 names at one instant, with about three commands for each; in a cluster
// each name is a call. Rights are as for List, without SCAN.
func (b *Backend) Get(ctx context.Context, names ...string) ([]admin.Record, error) {
	return listing.Get(ctx, b.clients, names...)
}

// Describe returns what Get does of name, and its keys: those of all kinds of lock
// that the name could be, as far as they are there. Detail.Token is the counter of
// Redisson's RFencedLock, which Options.SharedTokens uses too; Holdfast's own
// counters belong to no single name. Rights are as for Get, with TYPE, STRLEN and
// ZCARD.
func (b *Backend) Describe(ctx context.Context, name string) (admin.Detail, error) {
	return listing.Describe(ctx, b.clients, name)
}

// ForceReasons looks for the marks that ForceUnlock leaves to the owners of ended: they last as
// long as the lease would have, and 10 s at least. A permit whose owner is not
// known has none. It is one command for each, 200 to a call; in a cluster each is a
// call.
func (b *Backend) ForceReasons(ctx context.Context, ended []admin.Ended) ([]string, error) {
	return listing.ForceReasons(ctx, b.clients, ended)
}

// AppendLog adds entries to a stream that keeps the latest Options.LogLength of them,
// and ends a week after the last. It is one call.
// Losses and what else is rare stand in a second stream too, where the others do
// not crowd them out.
func (b *Backend) AppendLog(ctx context.Context, by admin.Client, entries []admin.Entry) error {
	if b.invalid != nil {
		return b.invalid
	}
	return eventlog.Append(ctx, b.clients, b.options.LogLength, by, entries)
}

// ReadLog returns what clients with the same Options.KeyPrefix did. A user who is to
// read it needs the right to XRANGE.
func (b *Backend) ReadLog(ctx context.Context, f admin.LogFilter) ([]admin.Entry, error) {
	if b.invalid != nil {
		return nil, b.invalid
	}
	return eventlog.Read(ctx, b.clients, f)
}

// Report notes, for people, what a client holds and waits for, in one round trip.
func (b *Backend) Report(ctx context.Context, r driver.Report) error { return b.clients.Report(ctx, r) }

// Drain waits for what goes on in the background: who holders are is asked for up to
// a quarter of a second.
func (b *Backend) Drain(ctx context.Context) error { return b.clients.Drain(ctx) }

func (b *Backend) newClients() *clients.Clients {
	return clients.New(clients.Access{
		Layout: b.layout, Log: b.log, Do: b.do, Call: b.call, Script: b.library.Get,
		Info: func(ctx context.Context) (ServerInfo, error) {
			if b.invalid != nil {
				return ServerInfo{}, b.invalid
			}
			return b.ask(ctx)
		},
	})
}
