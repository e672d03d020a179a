package peer

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

func holdfastRueidis() Spec {
	return Spec{
		Name: "holdfast-rueidis", Client: "rueidis", Role: Ours, Can: holdfastCan(),
		Open: overRueidis(holdfast.Options{}),
	}
}

// holdfastRueidisAsync does not wait for the answer to a release.
func holdfastRueidisAsync() Spec {
	return Spec{
		Name: "holdfast-async-rueidis", Client: "rueidis", Role: Ours, Works: own(), Can: holdfastCan(),
		Open: overRueidis(holdfast.Options{AsyncUnlock: true}),
	}
}

// holdfastNoHandoff gives each lock back to Redis before the next one has it.
func holdfastNoHandoff() Spec {
	return Spec{
		Name: "holdfast-no-handoff", Client: "rueidis", Role: Ours, Only: Waits, Can: holdfastCan(),
		Open: overRueidis(holdfast.Options{Handoff: holdfast.Handoff{Max: -1}}),
	}
}

func holdfastGoRedis() Spec {
	return Spec{
		Name: "holdfast-goredis", Client: "go-redis", Role: Ours, Can: holdfastCan(),
		Open: overGoRedis(holdfast.Options{}),
	}
}

// holdfastGoRedisAsync is holdfastRueidisAsync with the other client.
func holdfastGoRedisAsync() Spec {
	return Spec{
		Name: "holdfast-async-goredis", Client: "go-redis", Role: Ours, Works: own(), Can: holdfastCan(),
		Open: overGoRedis(holdfast.Options{AsyncUnlock: true}),
	}
}

func overRueidis(options holdfast.Options) func(context.Context, Target) (Peer, error) {
	return func(ctx context.Context, t Target) (Peer, error) {
		conn, err := rueidisconn.Open(ctx, "redis://"+t.Redis, nil)
		if err != nil {
			return nil, err
		}
		return newHoldfast(conn, t, options, conn.Close), nil
	}
}

func overGoRedis(options holdfast.Options) func(context.Context, Target) (Peer, error) {
	return func(_ context.Context, t Target) (Peer, error) {
		client := goRedis(t)
		return newHoldfast(goredisconn.New(client), t, options, func() { _ = client.Close() }), nil
	}
}

// own returns what the names of works begin with where no goroutine waits for another.
func own() []string { return []string{"own-", "net-"} }

func holdfastCan() []Ability { return []Ability{Waits, Renews, Shares, Queues, Counts, Several} }

// holdfastPeer is a Locker with the lease of the target.
type holdfastPeer struct {
	locker *holdfast.Locker
	shut   func()
}

func newHoldfast(conn redishold.Conn, t Target, options holdfast.Options, shut func()) *holdfastPeer {
	options.TTL = time.Duration(t.TTL)
	return &holdfastPeer{locker: holdfast.New(redishold.New(conn, nil), &options), shut: shut}
}

// newHoldfastOn is newHoldfast for other stores.
func newHoldfastOn(backend driver.Backend, t Target, shut func()) *holdfastPeer {
	return &holdfastPeer{locker: holdfast.New(backend, &holdfast.Options{TTL: time.Duration(t.TTL)}), shut: shut}
}

func (p *holdfastPeer) Lock(ctx context.Context, key string) (Held, error) {
	return held(p.locker.Lock(ctx, key))
}

func (p *holdfastPeer) LockRead(ctx context.Context, key string) (Held, error) {
	return held(p.locker.RWMutex(key).Read.Lock(ctx))
}

func (p *holdfastPeer) LockWrite(ctx context.Context, key string) (Held, error) {
	return held(p.locker.RWMutex(key).Write.Lock(ctx))
}

func (p *holdfastPeer) LockFair(ctx context.Context, key string) (Held, error) {
	return held(p.locker.FairMutex(key).Lock(ctx))
}

func (p *holdfastPeer) Acquire(ctx context.Context, key string, permits int) (Held, error) {
	return held(p.locker.Semaphore(key, permits).Acquire(ctx))
}

func (p *holdfastPeer) LockAll(ctx context.Context, keys []string) (Held, error) {
	mutexes := make([]*holdfast.Mutex, len(keys))
	for i, key := range keys {
		mutexes[i] = p.locker.Mutex(key)
	}
	return held(holdfast.LockAll(ctx, mutexes))
}

// Close waits for what the Locker does in the background before it takes the
// connection away.
func (p *holdfastPeer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.locker.Drain(ctx)
	p.shut()
}

// held keeps a failed call from becoming a Held that is not nil.
func held[H Held](h H, err error) (Held, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}
