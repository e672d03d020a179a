package redishold

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

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

	// Logger receives what cannot be returned: an eviction policy that may drop
	// held locks, a user without the right to listen or to publish. Default: none.
	Logger *slog.Logger
}

// Backend keeps locks in Redis. It is a driver.Backend, and also a
// driver.Inspector and a driver.Breaker.
type Backend struct {
	conn    Conn
	log     *slog.Logger
	layout  *layout
	scripts scripts

	server  server
	clients registrar
	names   names
	topics  topics

	deaf, mute atomic.Bool // already warned that the user may not listen, publish
}

var (
	_ driver.Backend   = (*Backend)(nil)
	_ driver.Inspector = (*Backend)(nil)
	_ driver.Breaker   = (*Backend)(nil)
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
		layout:  &layout{prefix: opts.Prefix},
		scripts: loadScripts(),
		server:  server{gate: make(chan struct{}, 1)},
		clients: registrar{self: describeProcess(), written: map[string]registration{}},
		names:   names{known: map[string]knownName{}},
	}
	b.topics = topics{open: map[string]*topic{}, subscribe: b.subscribe}
	return b
}

// Info describes the store.
func (b *Backend) Info() driver.Info {
	return driver.Info{
		Name:    "redis",
		Caps:    driver.Caps{Fencing: true, Wakes: true, ExpiresAlone: true, Counts: true},
		MinTTL:  10 * time.Millisecond,
		TTLStep: time.Millisecond,
	}
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
		b.log.Warn("redis refuses to subscribe: waiting polls instead", "error", err)
	}
}

// millis returns d in milliseconds, rounded up: a lease must not end early, and
// a TTL of 0 would delete the key.
func millis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
