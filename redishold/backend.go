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
	// KeyPrefix is the prefix of every key that is made from the name of a lock. In a Java
	// program with Redisson, a NameMapper adds such a prefix. Both programs must use the same
	// prefix. Default: none.
	//
	// A prefix with a hash tag, such as "{app}:", puts all locks into one slot of
	// a cluster.
	KeyPrefix string

	// FairWait is the "fairLockWaitTimeout" of Java programs that wait for the same fair locks.
	// If the value in a Java program is longer than FairWait, this program may take the place of
	// a waiter of Holdfast in the queue. Default: 5 minutes, as in Redisson.
	FairWait time.Duration

	// Layout is the layout of the locks in Redis, shared with the programs that
	// use the same names. Default: Redisson's.
	Layout Layout

	// SharedTokens takes fencing tokens from the counter of Redisson's RFencedLock,
	// redisson_lock_token:{name}, so that tokens rise across Go and Java. A token of Holdfast is
	// the value of that counter plus one, or the server's clock in microseconds if the clock is
	// larger. Java programs continue from that token. After a failover that lost writes, only
	// tokens of Holdfast are certain to be larger than all tokens before the failover. As in
	// Redisson, the counter has no TTL, so the server keeps one key for each name. SharedTokens
	// is only for the layout Redisson. Default: false, with one counter for each hash slot.
	SharedTokens bool

	// Replicas is the number of replicas that must acknowledge every grant and every
	// renewal (WAIT). AllReplicas means all connected replicas, and at least one.
	// Default: none.
	//
	// If fewer replicas acknowledge a grant in time, the Backend releases the lock again, and
	// the Try fails; Lock then tries again. If fewer replicas acknowledge a renewal in time, the
	// hold ends at once, because after a failover to a replica without this renewal the server
	// would grant the lock again. "In time" means before the timeout of the call, and within a
	// second at most. As a rule the first timeout is a tenth of the TTL, so replicas must be
	// faster than that. All calls in one pipeline share one WAIT, so all of them fail if that
	// WAIT fails. With AllReplicas, every grant and every renewal takes a second round trip.
	//
	// If Replicas is smaller than the number of all replicas, a failover loses a grant if the
	// replicas that acknowledged the grant die or are not elected. So use AllReplicas. But even
	// AllReplicas does not make Redis consistent: for example, a master that is cut off together
	// with its replicas still grants locks. Latches and PlainSemaphore do not wait for replicas.
	Replicas int

	// Poll, if not 0, makes waiters poll instead of subscribing to a channel. The first pause is
	// 1 ms, and each later pause is twice as long, up to Poll, with jitter. Redisson's spin lock
	// does the same, up to 128 ms. Use Poll for servers and proxies without pub/sub. If only the
	// permission to subscribe is missing, do not set Poll: waiters then poll by themselves.
	Poll time.Duration

	// LogLength is the approximate number of entries of the event log, see package audit. An
	// entry has about 300 bytes. A second stream, for rare entries, has a tenth of that number
	// of entries. If clients have different values of LogLength, the client that has written
	// last determines the length. Default: 10,000.
	LogLength int

	// Logger gets warnings that no call can return: an eviction policy that may remove
	// held locks, a user without the permission to subscribe or to publish, client
	// settings that make locks unreachable after the loss of a machine. Default: no log.
	Logger *slog.Logger
}

// counts is embedded in Backend, because its methods make Backend a driver.Latcher and a
// driver.Resizer.
type counts = kinds.Counts

// Backend keeps locks in Redis. It is a driver.Backend with the optional interfaces
// Batcher, Resizer, Latcher, Releaser and Notifier of package driver, and an
// admin.Source.
type Backend struct {
	counts

	conn     Conn
	single   Single          // conn as a Single; nil if conn is not a Single
	beginner Beginner        // conn as a Beginner; nil if conn is not a Beginner
	counter  ListenerCounter // conn as a ListenerCounter; nil if conn is not a ListenerCounter
	log      *slog.Logger
	options  Options
	invalid  error // the error with which every claim fails if the options are invalid; nil if they are valid
	forms    forms
	layout   *layout.Layout
	scripts  scripts.Lock // the scripts of an exclusive lock in Redisson's layout

	server  server
	publish [2]string // the publish commands
	clients *clients.Clients
	trimmer trimmer
	library scripts.Library
	topics  waiting.Topics
	store   kinds.Store

	callBufs, batchBufs, releases sync.Pool // of *callBuf, *batchBuf and *release

	cannotListen, cannotPublish atomic.Bool // each is true after its warning was logged: see warnCannotListen and warnCannotPublish
}

var (
	_ driver.Backend       = (*Backend)(nil)
	_ driver.Batcher       = (*Backend)(nil)
	_ driver.Resizer       = (*Backend)(nil)
	_ driver.Latcher       = (*Backend)(nil)
	_ driver.QuietReleaser = (*Backend)(nil)
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
	b.batchBufs.New = func() any { return &batchBuf{} }
	b.releases.New = func() any {
		r := &release{backend: b}
		r.finish = func() (int, error) { return r.answered(r.answer()) }
		return r
	}
	b.single, _ = conn.(Single)
	b.beginner, _ = conn.(Beginner)
	b.counter, _ = conn.(ListenerCounter)
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

// maxTTL is ten years. To hold a lock without an end, a client should renew its lease instead of
// using a longer TTL.
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

// PlainSemaphore returns Redisson's semaphore called name. PlainSemaphore does no I/O. The
// semaphore must not have the same name as a holdfast Semaphore or any other lock.
func (b *Backend) PlainSemaphore(name string) *unleased.Semaphore {
	return unleased.New(&b.store, b.log, name)
}

// do runs `calls` and returns a Result for each of them, even if the Conn returns fewer Results.
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

// warnCannotPublish logs, only once for each Backend, that the server refuses to publish
// messages. In that case waiters notice a release late.
func (b *Backend) warnCannotPublish(words string) {
	if b.cannotPublish.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to publish messages, so waiters notice a release late", "reply", words)
	}
}

// warnCannotListen logs, only once for each Backend, that the server refuses subscriptions. In
// that case the waiters of this process poll.
func (b *Backend) warnCannotListen(err error) {
	if b.cannotListen.CompareAndSwap(false, true) {
		b.log.Warn("redis refuses to subscribe to messages, so waiters poll", "error", err)
	}
}
