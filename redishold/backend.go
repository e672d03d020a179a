package redishold

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold/internal/clients"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/unleased"
)

// Options are the settings of New. The zero value is right for most programs.
type Options struct {
	// KeyPrefix is put before every key that is made from a lock's name. It is what
	// a NameMapper with a prefix does in a Java program that uses Redisson: both
	// must agree. Default: none.
	//
	// A prefix with a hash tag, such as "{app}:", puts all locks into one slot of
	// a cluster.
	KeyPrefix string

	// FairWait is the fairLockWaitTimeout of Java programs that wait for the same
	// fair locks. If theirs is longer, a waiter of Holdfast may lose its place to
	// them. Default: 5 minutes, as in Redisson.
	FairWait time.Duration

	// Layout is the layout of the locks in Redis, shared with the programs that
	// use the same names. Default: Redisson's.
	Layout Layout

	// SharedTokens draws fencing tokens from the counter that Redisson's
	// RFencedLock keeps for each name, redisson_lock_token:{name}, so that tokens
	// rise over Go and Java. They go on from the larger of that counter and the
	// server's clock in microseconds, and Java's go on from there; after a
	// failover that lost writes, only those that Holdfast draws are certain to be
	// larger than before. As with Redisson the counter has no TTL: one key per name
	// stays. Not with another Protocol. Default: a counter per hash slot.
	SharedTokens bool

	// Replicas is how many replicas must acknowledge every grant and every renewal
	// (WAIT); AllReplicas asks for all that are connected, and for at least one.
	// Default: none.
	//
	// Where fewer acknowledge in time, a grant is released again and its Try fails;
	// Lock goes on trying. A renewal ends the hold at once: after a failover to
	// one of the other replicas the server would give the lock to somebody else.
	// In time means within the attempt, and a second at most, so replicas must be
	// quicker than a tenth of the TTL. Calls that travel together wait together, and
	// fail together; AllReplicas costs a second round trip.
	//
	// A number smaller than that of all replicas promises nothing once those that
	// acknowledged may die or lose the election. AllReplicas is the setting to
	// use, and even it does not make Redis consistent: a master that was cut off
	// together with its replicas goes on. Latches and PlainSemaphore do not ask for
	// replicas.
	Replicas int

	// Poll, if not 0, makes waiters sleep and ask again instead of listening on a
	// channel: 1 ms at first, twice as long each time up to Poll, with jitter, as
	// Redisson's spin lock does with 128 ms. It is for servers and proxies without
	// pub/sub; where only the user lacks the right to listen, waiters do so anyway.
	Poll time.Duration

	// LogLength is the approximate number of entries that the event log keeps, of some
	// 300 bytes each, see package audit: a stream, and a second one a tenth as long for
	// what is rare. If clients disagree, the last one that wrote decides. Default:
	// 10,000.
	LogLength int

	// Logger receives what cannot be returned: an eviction policy that may drop
	// held locks, a user without the right to listen or to publish, settings of the
	// client that keep locks unreachable after the loss of a machine. Default: none.
	Logger *slog.Logger
}

// A Backend embeds this for its methods: they make it a driver.Latcher and a
// driver.Resizer.
type counts = kinds.Counts

// Backend keeps locks in Redis. It is a driver.Backend, with all that package driver
// has for stores that can do more (Batcher, Resizer, Latcher, Releaser, Notifier), and
// an admin.Source.
type Backend struct {
	counts

	conn     Conn
	single   Single   // nil if conn is none
	beginner Beginner // likewise
	log      *slog.Logger
	options  Options
	invalid  error // what is wrong with the options: the answer to every claim
	forms    forms
	layout   *layout.Layout
	scripts  scripts.Lock // of an exclusive lock in Redisson's layout

	server  server
	publish [2]string // both commands that publish
	clients *clients.Clients
	library scripts.Library
	topics  waiting.Topics
	store   kinds.Store

	callBufs, releases sync.Pool // of *callBuf and *release, to be used again

	deaf, mute atomic.Bool // already warned that the user may not listen, publish
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Batcher  = (*Backend)(nil)
	_ driver.Resizer  = (*Backend)(nil)
	_ driver.Latcher  = (*Backend)(nil)
	_ driver.Releaser = (*Backend)(nil)
)

// New returns a Backend over conn, which stays the caller's to close. It does no
// I/O. opts may be nil.
func New(conn Conn, opts *Options) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Backend{
		conn:    conn,
		log:     log,
		options: *opts,
		invalid: opts.check(),
		layout:  layout.New(opts.KeyPrefix, opts.Layout.own(), opts.SharedTokens),
		scripts: scripts.LoadLock(""),

		publish: [2]string{"PUBLISH", "SPUBLISH"},
		server:  server{gate: make(chan struct{}, 1)},
	}
	b.layout.AllCommands = sync.OnceValue(scripts.AllCommands)
	b.clients = b.newClients()
	b.callBufs.New = func() any { return &callBuf{} }
	b.releases.New = func() any {
		r := &release{backend: b}
		r.finish = func() (int, error) { return r.answered(r.answer()) }
		return r
	}
	b.single, _ = conn.(Single)
	b.beginner, _ = conn.(Beginner)
	b.forms = b.newForms()
	b.topics.Subscribe, b.topics.Poll = b.subscribe, opts.Poll
	b.store = kinds.Store{
		Layout: b.layout, Library: &b.library, Topics: &b.topics, Ready: b.ready, Run: b.call,
		Mute: func(script string) { b.warnMute("refused by " + script) },
	}
	b.counts = b.store.Counts()
	return b
}

// maxTTL is ten years: a lease that is meant to be forever should say so by
// being renewed.
const maxTTL = 10 * 365 * 24 * time.Hour

// Info describes the store.
func (b *Backend) Info() driver.Info {
	return b.options.limits(driver.Info{
		Name:    "redis",
		Caps:    driver.Caps{Shared: true, Permits: true, Latches: true, Fair: true, Fencing: true, Wakes: true, ExpiresAlone: true, Counts: true, Tombstones: true},
		MinTTL:  10 * time.Millisecond,
		MaxTTL:  maxTTL,
		TTLStep: time.Millisecond,
	})
}

// PlainSemaphore returns Redisson's semaphore called name. It does no I/O. It
// must not share a name with a holdfast Semaphore or any other kind of lock.
func (b *Backend) PlainSemaphore(name string) *unleased.Semaphore {
	return unleased.New(&b.store, b.log, name)
}

// do runs calls and returns a Result for each of them, whatever the Conn does.
func (b *Backend) do(ctx context.Context, calls ...Call) []Result {
	results := b.conn.Do(ctx, calls...)
	for len(results) < len(calls) {
		results = append(results, Result{Err: errors.New("redis: the client returned no result")})
	}
	return results
}

func (b *Backend) call(ctx context.Context, c Call) (any, error) {
	result := b.do(ctx, c)[0]
	return result.Value, result.Err
}

// warnMute says once that waiters are not woken.
func (b *Backend) warnMute(words string) {
	if b.mute.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to publish: waiters learn of a release late", "reply", words)
	}
}

// warnDeaf says once that this process is not woken.
func (b *Backend) warnDeaf(err error) {
	if b.deaf.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to subscribe: waiting polls where it hears nothing", "error", err)
	}
}
