package goredisconn_test

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// ship is the work that only one process may do at a time. It passes the token on
// to what it writes to.
func ship(context.Context, uint64) error { return nil }

// sell sells one item.
func sell(ctx context.Context, rdb *redis.Client) error {
	locker := goredisconn.Locker(rdb, nil)

	lock, err := locker.Lock(ctx, "stock:42") // waits until ctx is done
	if err != nil {
		return err
	}
	defer lock.Unlock()

	return ship(lock.Context(ctx), lock.Token())
}

func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close() // the Conn does not: the client is yours

	if err := sell(context.Background(), rdb); err != nil {
		panic(err)
	}
}

// Permits that Java programs with Redisson's RSemaphore share. They have no
// lease: those of a process that dies are lost.
func Example_plainSemaphore() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	seats := redishold.New(goredisconn.New(rdb), nil).PlainSemaphore("seats")
	if _, err := seats.TrySet(ctx, 100); err != nil { // does nothing if a count is there
		panic(err)
	}
	if err := seats.Acquire(ctx, 2); err != nil {
		panic(err)
	}
	if err := seats.Release(ctx, 2); err != nil {
		panic(err)
	}
}

// Locks that redsync, redislock, redis-py and node-redlock respect.
func Example_plainProtocol() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	store := redishold.New(goredisconn.New(rdb), &redishold.Options{Layout: redishold.Plain})
	err := holdfast.New(store, nil).Mutex("nightly").Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		return ship(ctx, lock.Token())
	})
	if err != nil {
		panic(err)
	}
}
