package peer

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The scripts of a lock that has no token, publishes nothing and cannot be waited
// for: what every lock costs at least.
const (
	rawAcquire = `return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])`
	rawRelease = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`
	rawOwner   = "0123456789abcdef0123456789abcdef"
)

// errTaken says that a raw lock met another: the work is not for it.
var errTaken = errors.New("taken, and the raw client cannot wait")

func rawRueidis() Spec {
	return Spec{
		Name: "raw-rueidis", Client: "rueidis", Role: Limit, Can: []Ability{Several, Hears},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{t.Redis}, PipelineMultiplex: -1, DisableCache: true,
			})
			if err != nil {
				return nil, err
			}
			return &rueidisRaw{
				client: client, ttl: millis(t), voice: newVoice(client),
				acquire: rueidis.NewLuaScript(rawAcquire), release: rueidis.NewLuaScript(rawRelease),
			}, nil
		},
	}
}

func millis(t Target) string {
	return strconv.FormatInt(time.Duration(t.TTL).Milliseconds(), 10)
}

type rueidisRaw struct {
	client           rueidis.Client
	voice            *voice
	acquire, release *rueidis.Lua
	ttl              string
}

func (p *rueidisRaw) Lock(ctx context.Context, key string) (Held, error) {
	err := p.acquire.Exec(ctx, p.client, []string{key}, []string{rawOwner, p.ttl}).Error()
	if rueidis.IsRedisNil(err) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	return &rueidisRawHeld{p, key}, nil
}

// LockAll sends one call for each key, all in one pipeline.
func (p *rueidisRaw) LockAll(ctx context.Context, keys []string) (Held, error) {
	if err := p.all(ctx, p.acquire, keys); err != nil {
		return nil, err
	}
	return rueidisRawAll{p, keys}, nil
}

func (p *rueidisRaw) all(ctx context.Context, script *rueidis.Lua, keys []string) error {
	execs := make([]rueidis.LuaExec, len(keys))
	for i, key := range keys {
		execs[i] = rueidis.LuaExec{Keys: []string{key}, Args: []string{rawOwner, p.ttl}}
	}
	for _, r := range script.ExecMulti(ctx, p.client, execs...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Hear is not for several goroutines.
func (p *rueidisRaw) Hear(ctx context.Context) (Held, error) { return p.voice, p.voice.echo(ctx) }

func (p *rueidisRaw) Close() {
	p.voice.close()
	p.client.Close()
}

type rueidisRawHeld struct {
	peer *rueidisRaw
	key  string
}

func (h *rueidisRawHeld) Unlock() error {
	p := h.peer
	n, err := p.release.Exec(context.Background(), p.client, []string{h.key}, []string{rawOwner}).AsInt64()
	return released(n, err)
}

type rueidisRawAll struct {
	peer *rueidisRaw
	keys []string
}

func (h rueidisRawAll) Unlock() error {
	return h.peer.all(context.Background(), h.peer.release, h.keys)
}

func released(n int64, err error) error {
	if err == nil && n != 1 {
		return errNotHeld
	}
	return err
}

func rawGoRedis() Spec {
	return Spec{
		Name: "raw-goredis", Client: "go-redis", Role: Limit,
		Open: func(_ context.Context, t Target) (Peer, error) {
			return &goRedisRaw{
				client: goRedis(t), ttl: millis(t),
				acquire: redis.NewScript(rawAcquire), release: redis.NewScript(rawRelease),
			}, nil
		},
	}
}

// goRedis returns a client with go-redis' defaults, but for deadlines, which a call should keep,
// and for the size of its pool. The default is ten connections for each core. Behind a network a
// call has its connection for the time of a round trip, so with ten connections most of 64
// goroutines would wait for one.
func goRedis(t Target) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: t.Redis, PoolSize: max(10*runtime.GOMAXPROCS(0), t.Pool), ContextTimeoutEnabled: true,
	})
}

type goRedisRaw struct {
	client           *redis.Client
	acquire, release *redis.Script
	ttl              string
}

func (p *goRedisRaw) Lock(ctx context.Context, key string) (Held, error) {
	err := p.acquire.EvalSha(ctx, p.client, []string{key}, rawOwner, p.ttl).Err()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		err = p.acquire.Eval(ctx, p.client, []string{key}, rawOwner, p.ttl).Err()
	}
	if errors.Is(err, redis.Nil) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	return &goRedisRawHeld{p, key}, nil
}

func (p *goRedisRaw) Close() { _ = p.client.Close() }

type goRedisRawHeld struct {
	peer *goRedisRaw
	key  string
}

func (h *goRedisRawHeld) Unlock() error {
	n, err := h.peer.release.Run(context.Background(), h.peer.client, []string{h.key}, rawOwner).Int64()
	return released(n, err)
}
