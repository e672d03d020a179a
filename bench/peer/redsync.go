package peer

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	rueidispool "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// quick is a back-off that is shorter than the libraries' own or usual one.
const quick = 10 * time.Millisecond

func redsyncGoRedis() Spec {
	return Spec{
		Name: "redsync-goredis", Client: "go-redis", Role: Other, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) { return openRedsync(t), nil },
	}
}

func redsyncGoRedisQuick() Spec {
	return Spec{
		Name: "redsync-goredis-10ms", Client: "go-redis", Role: Other, Full: true, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) {
			return openRedsync(t, redsync.WithRetryDelay(quick)), nil
		},
	}
}

func openRedsync(t Target, options ...redsync.Option) Peer {
	client := goRedis(t)
	return newRedsync(goredispool.NewPool(client), t, func() { _ = client.Close() }, options...)
}

func redsyncRueidis() Spec {
	return Spec{
		Name: "redsync-rueidis", Client: "rueidis", Role: Other, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) {
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{t.Redis}, PipelineMultiplex: -1, DisableCache: true,
			})
			if err != nil {
				return nil, err
			}
			return newRedsync(rueidispool.NewPool(rueidiscompat.NewAdapter(client)), t, client.Close), nil
		},
	}
}

// redsyncPeer makes a mutex for each acquisition, as a Mutex must not be shared.
type redsyncPeer struct {
	rs      *redsync.Redsync
	options []redsync.Option
	shut    func()
}

func newRedsync(pool syncredis.Pool, t Target, shut func(), more ...redsync.Option) *redsyncPeer {
	options := append([]redsync.Option{
		redsync.WithExpiry(time.Duration(t.TTL)),
		redsync.WithTries(math.MaxInt32), // the context is the limit
	}, more...)
	return &redsyncPeer{rs: redsync.New(pool), options: options, shut: shut}
}

func (p *redsyncPeer) Lock(ctx context.Context, key string) (Held, error) {
	mutex := p.rs.NewMutex(key, p.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return (*redsyncHeld)(mutex), nil
}

func (p *redsyncPeer) Close() { p.shut() }

// redsyncHeld is a mutex under another name, so that the interface costs no
// allocation.
type redsyncHeld redsync.Mutex

func (h *redsyncHeld) Unlock() error {
	ok, err := (*redsync.Mutex)(h).Unlock()
	if err == nil && !ok {
		return errNotHeld
	}
	return err
}
