package goredisconn

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

func (l *library) Ask(ctx context.Context, words ...string) redishold.Result {
	return questions(l.client)(ctx, words...)
}

// Servers returns a Question for each server, by its address. A client with Sentinels has one
// server, the master, and its address is failoverAddr.
func (l *library) Servers(ctx context.Context) (map[string]adapter.Question, error) {
	shards, ok := l.client.(interface {
		ForEachShard(ctx context.Context, fn func(context.Context, *redis.Client) error) error
	})
	if !ok {
		addr := "redis"
		if named, ok := l.client.(interface{ Options() *redis.Options }); ok {
			addr = named.Options().Addr
		}
		return map[string]adapter.Question{addr: l.Ask}, nil
	}
	servers := map[string]adapter.Question{}
	var mu sync.Mutex // go-redis calls back from several goroutines
	err := shards.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers[node.Options().Addr] = questions(node)
		return nil
	})
	return servers, err
}

func questions(server Client) adapter.Question {
	return func(ctx context.Context, words ...string) redishold.Result {
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		cmd := command(ctx, args...)
		r := process(ctx, server, cmd)
		if cmd.Err() == nil {
			r = redishold.Result{Value: cmd.Val()} // the value may be a map
		}
		return r
	}
}
