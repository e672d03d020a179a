package redishold

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
)

// Options are the settings of New. The zero value is right for most programs.
type Options struct {
	// Prefix is put before every key that is made from a lock's name. It is what
	// a NameMapper with a prefix does in a Java program that uses Redisson: both
	// must agree. Default: none.
	//
	// A prefix with a hash tag, such as "{app}:", puts all locks into one slot of
	// a cluster.
	Prefix string

	// FairWait is the fairLockWaitTimeout of Java programs that wait for the same
	// fair locks. If theirs is longer, a waiter of Holdfast may lose its place to
	// them. Default: 5 minutes, as in Redisson.
	FairWait time.Duration

	// Protocol is the layout of the locks in Redis, shared with the programs that
	// use the same names. Default: Redisson's.
	Protocol Protocol

	// SharedTokens draws fencing tokens from the counter that Redisson's
	// RFencedLock keeps for each name, redisson_lock_token:{name}, so that tokens
	// rise over Go and Java. They go on from the larger of that counter and the
	// server's clock in microseconds, and Java's go on from there; after a
	// fail-over that lost writes, only those that Holdfast draws are certain to be
	// larger than before. As with Redisson the counter has no TTL: one key per name
	// stays. Not with another Protocol. Default: a counter per hash slot.
	SharedTokens bool

	// Replicas is how many replicas must acknowledge every grant and every renewal
	// (WAIT); AllReplicas asks for all that are connected, and for at least one.
	// Default: none.
	//
	// Where fewer acknowledge in time, a grant is released again and its Try fails;
	// Lock goes on trying. A renewal ends the hold at once: after a fail-over to
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
	// client that keep locks out of reach after the loss of a machine. Default: none.
	Logger *slog.Logger
}

// Backend keeps locks in Redis. It is a driver.Backend, and also an
// admin.Source.
type Backend struct {
	conn     Conn
	single   Single   // nil if conn is none
	beginner Beginner // likewise
	log      *slog.Logger
	options  Options
	invalid  error  // what is wrong with the options: the answer to every claim
	own      *rlock // of a protocol other than Redisson's; nil for that
	forms    forms  // of Redisson's
	layout   *layout
	scripts  scripts
	rw       rwScripts
	fair     fairScripts

	semaphores semaphoreScripts
	permits    permitsScripts
	latches    latchScripts

	fairWait time.Duration

	server    server
	publish   [2]string // both commands that publish
	clients   registrar
	stems     registrar // of clients that take permits
	directory directory
	forPeople peopleScripts
	reporter  reporter
	topics    topics

	errands, releases sync.Pool // of *errand and *release, to be used again

	deaf, mute atomic.Bool // already warned that the user may not listen, publish
}

var (
	_ driver.Backend  = (*Backend)(nil)
	_ admin.Source    = (*Backend)(nil)
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
		layout:  newLayout(opts),
		scripts: loadScripts(),
		rw:      loadRWScripts(),
		fair:    loadFairScripts(),

		semaphores: loadSemaphoreScripts(),
		permits:    loadPermitsScripts(),
		latches:    loadLatchScripts(),

		fairWait: cmp.Or(max(opts.FairWait, 0), fairWait),

		publish:   [2]string{"PUBLISH", "SPUBLISH"},
		server:    server{gate: make(chan struct{}, 1)},
		clients:   registrar{self: describeProcess(), written: map[string]registration{}},
		stems:     registrar{written: map[string]registration{}},
		reporter:  reporter{waits: map[string]map[string]bool{}},
		directory: directory{known: map[string]knownClient{}, told: map[string]time.Time{}, asked: map[string]bool{}},
	}
	b.single, _ = conn.(Single)
	b.beginner, _ = conn.(Beginner)
	b.own, b.forms = opts.Protocol.newForm(b.layout), b.newForms()
	b.topics = topics{open: map[string]*topic{}, others: map[string]crowd{}, subscribe: b.subscribe, poll: opts.Poll}
	return b
}

// maxTTL is ten years: a lease that is meant to be for ever should say so by
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

// do runs calls and returns a Result for each of them, whatever the Conn does.
func (b *Backend) do(ctx context.Context, calls ...Call) []Result {
	results := b.conn.Do(ctx, calls...)
	for len(results) < len(calls) {
		results = append(results, Result{Err: errors.New("redis: the client returned no result")})
	}
	return results
}

// call runs one call.
func (b *Backend) call(ctx context.Context, c Call) (any, error) {
	result := b.do(ctx, c)[0]
	return result.Value, result.Err
}

// asideLimit bounds calls that only add something for people. In a cluster they
// go to another node than the lock, and its trouble must not become the lock's.
const asideLimit = 250 * time.Millisecond

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

// millis returns d in milliseconds, rounded up: a lease must not end early, and
// a TTL of 0 would delete the key.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return max(1, ms)
}
