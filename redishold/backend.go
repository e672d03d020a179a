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
	"github.com/holdfast-go/holdfast/redishold/internal/fair"
	"github.com/holdfast-go/holdfast/redishold/internal/kinds"
	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/scripts"
	"github.com/holdfast-go/holdfast/redishold/internal/waiting"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
	"github.com/holdfast-go/holdfast/redishold/unleased"
)

// Options are the settings of New. The zero value has the defaults.
type Options struct {
	// KeyPrefix is the prefix of every key that is made from the name of a lock. A
	// NameMapper with a prefix does the same in a Java program with Redisson: both must
	// agree. Default: none.
	//
	// A prefix with a hash tag, such as "{app}:", puts all locks into one slot of
	// a cluster.
	KeyPrefix string

	// FairWait is the "fairLockWaitTimeout" of Java programs that wait for the same fair locks.
	// If their value is longer than FairWait, they may take the place of a waiter of Holdfast
	// in the queue. Default: 5 minutes, as in Redisson.
	FairWait time.Duration

	// Layout is the layout of the locks in Redis, shared with the programs that
	// use the same names. Default: Redisson's.
	Layout Layout

	// SharedTokens takes fencing tokens from the counter of Redisson's RFencedLock,
	// redisson_lock_token:{name}, so that tokens rise across Go and Java. A token of
	// Holdfast is that counter plus one, or the server's clock in microseconds if that is
	// larger, and Java continues from there. After a failover that lost writes, only
	// tokens of Holdfast are certain to be larger than before. As in Redisson the counter
	// has no TTL, so one key for each name stays. Only with the layout Redisson. Default:
	// a counter for each hash slot.
	SharedTokens bool

	// Replicas is the number of replicas that must acknowledge every grant and every
	// renewal (WAIT). AllReplicas means all connected replicas, and at least one.
	// Default: none.
	//
	// If fewer acknowledge in time, a grant is released again and its Try fails; Lock tries
	// again. A failed renewal ends the hold at once: after a failover to a replica without this
	// renewal, the server would grant the lock again. "In time" means within the attempt, and a
	// second at most, so replicas must be faster than a tenth of the TTL. Calls in one pipeline
	// wait together and fail together. AllReplicas takes a second round trip.
	//
	// With a number smaller than that of all replicas, a grant is lost if the
	// acknowledging replicas die or are not elected. So use AllReplicas. But even that
	// does not make Redis consistent: a master that is cut off together with its replicas
	// still grants locks. Latches and PlainSemaphore do not wait for replicas.
	Replicas int

	// Poll, if not 0, makes waiters poll instead of subscribing to a channel. The first pause
	// is 1 ms, and each later pause is twice as long, up to Poll, with jitter. Redisson's spin
	// lock does the same, up to 128 ms. Use Poll for servers and proxies without pub/sub. If
	// only the user lacks the permission to subscribe, waiters poll without this option.
	Poll time.Duration

	// LogLength is the approximate number of entries of the event log, see package audit. An
	// entry has about 300 bytes. A second stream for rare entries has a tenth of that number.
	// If clients have different values, that of the last client that wrote counts. Default:
	// 10,000.
	LogLength int

	// Logger gets warnings that no call can return: an eviction policy that may remove
	// held locks, a user without the permission to subscribe or to publish, client
	// settings that make locks unreachable after the loss of a machine. Default: no log.
	Logger *slog.Logger
}

// counts is embedded in Backend for its methods, which make Backend a driver.Latcher and a
// driver.Resizer.
type counts = kinds.Counts

// Backend keeps locks in Redis. It is a driver.Backend with the optional interfaces
// Batcher, Resizer, Latcher, Releaser and Notifier of package driver, and an
// admin.Source.
type Backend struct {
	counts

	conn     Conn
	single   Single   // conn as a Single; nil if conn is none
	beginner Beginner // conn as a Beginner; nil if conn is none
	log      *slog.Logger
	options  Options
	invalid  error // the error of invalid options, with which every claim fails; nil if they are valid
	forms    forms
	layout   *layout.Layout
	scripts  scripts.Lock // of an exclusive lock in Redisson's layout

	server  server
	publish [2]string // the publish commands
	clients *clients.Clients
	library scripts.Library
	topics  waiting.Topics
	store   kinds.Store

	callBufs, releases sync.Pool // of *callBuf and *release

	cannotListen, cannotPublish atomic.Bool // true after the warning about it was logged
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ driver.Batcher  = (*Backend)(nil)
	_ driver.Resizer  = (*Backend)(nil)
	_ driver.Latcher  = (*Backend)(nil)
	_ driver.Releaser = (*Backend)(nil)
)

// New returns a Backend over conn. The caller closes conn after the last use of the
// Backend. New does no I/O. opts may be nil.
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
		layout:  layout.New(opts.KeyPrefix, opts.Layout.internalName(), opts.SharedTokens),
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
		Layout: b.layout, Library: &b.library, Topics: &b.topics, Run: b.call,
		Ready: func(ctx context.Context, name string, kind kinds.Kind) (layout.Keys, wire.Server, error) {
			k, info, err := b.ready(ctx, name, kind)
			return k, info.wire(), err
		},
		PublishRefused: func(script string) { b.warnCannotPublish("refused by " + script) },
	}
	b.counts = b.store.Counts()
	return b
}

// maxTTL is ten years. A lease without an end should be renewed instead.
const maxTTL = 10 * 365 * 24 * time.Hour

// Info describes the store.
func (b *Backend) Info() driver.Info {
	return b.options.limits(driver.Info{
		Name:    "redis",
		Caps:    driver.Caps{Shared: true, Permits: true, Latches: true, Fair: true, Fencing: true, Wakes: true, ExpiresAlone: true, Counts: true, Tombstones: true, AtLeast: true},
		MinTTL:  10 * time.Millisecond,
		MaxTTL:  maxTTL,
		TTLStep: time.Millisecond,

		PlaceTTL: fair.Presence,
	})
}

// PlainSemaphore returns Redisson's semaphore called name. It does no I/O. It must not share a
// name with a holdfast Semaphore or any other kind of lock.
func (b *Backend) PlainSemaphore(name string) *unleased.Semaphore {
	return unleased.New(&b.store, b.log, name)
}

// do runs calls and returns a Result for each of them, even if the Conn returns fewer.
func (b *Backend) do(ctx context.Context, calls ...Call) []Result {
	results := b.conn.Do(ctx, calls...)
	for len(results) < len(calls) {
		results = append(results, Result{Err: errors.New("redis: the client returned no result")})
	}
	return results
}

func (b *Backend) call(ctx context.Context, c wire.Call) (any, error) {
	result := b.do(ctx, Call(c))[0]
	return result.Value, result.Err
}

// warnCannotPublish logs once that waiters are not notified.
func (b *Backend) warnCannotPublish(words string) {
	if b.cannotPublish.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to publish messages, so waiters notice a release late", "reply", words)
	}
}

// warnCannotListen logs once that this process is not notified.
func (b *Backend) warnCannotListen(err error) {
	if b.cannotListen.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to subscribe to messages, so waiters poll", "error", err)
	}
}
