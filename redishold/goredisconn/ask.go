package goredisconn

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Servers returns how to ask each server that the client knows, by its address:
// one, the master with Sentinels ("FailoverClient", as go-redis calls it), every
// node of a cluster. Whether they answer, it does not say. Package doctor looks
// at them with it.
//
// A question is sent at most once, and returns when its context ends. Its answer
// is as the server gave it, and may be a map; the error of a Result is as in Do.
func (c *Conn) Servers(ctx context.Context) (map[string]func(ctx context.Context, command ...string) redishold.Result, error) {
	if err := c.refuse(ctx); err != nil {
		return nil, err
	}
	servers := map[string]func(context.Context, ...string) redishold.Result{}
	shards, ok := c.client.(interface {
		ForEachShard(ctx context.Context, fn func(context.Context, *redis.Client) error) error
	})
	if !ok {
		addr := "redis"
		if named, ok := c.client.(interface{ Options() *redis.Options }); ok {
			addr = named.Options().Addr
		}
		servers[addr] = questions(c.client)
		return servers, nil
	}
	var mu sync.Mutex // go-redis calls back from several goroutines
	failed, err := adapter.Guard(ctx, func() error {
		return shards.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			servers[node.Options().Addr] = questions(node)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, adapter.Classify(ctx, failed, true)
	}
	return servers, nil
}

// processor is what can send a command.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// questions returns how to ask one server.
func questions(client processor) func(context.Context, ...string) redishold.Result {
	return func(ctx context.Context, words ...string) redishold.Result {
		if err := ctx.Err(); err != nil {
			return redishold.Result{Err: adapter.NotSent(err)}
		}
		r, err := adapter.Guard(ctx, func() redishold.Result {
			args := make([]any, len(words))
			for i, word := range words {
				args[i] = word
			}
			cmd := command(ctx, args...)
			_ = client.Process(ctx, once{cmd}) // cmd has the error as well
			if cmd.Err() != nil {
				return result(ctx, cmd)
			}
			return redishold.Result{Value: cmd.Val()}
		})
		if err != nil {
			return redishold.Result{Err: err}
		}
		return r
	}
}
