package faqtest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

// tryRedis returns the error of a TryLock over a client of go-redis, which it closes.
func tryRedis(t *testing.T, client *redis.Client, name string) string {
	t.Helper()
	defer client.Close()
	return try(t, redishold.New(goredisconn.New(client), nil), name)
}

// onRedis returns the error of a TryLock on a server that was prepared.
func onRedis(name string, prepare func(*redistest.Server), opts ...redistest.Option) produce {
	return loggedIn(redis.Options{}, name, prepare, opts...)
}

// loggedIn is onRedis for a client with the name and the password of a user.
func loggedIn(as redis.Options, name string, prepare func(*redistest.Server), opts ...redistest.Option) produce {
	return func(t *testing.T) string {
		s := redistest.Start(t, opts...)
		if prepare != nil {
			prepare(s)
		}
		as.Addr = s.Addr()
		return tryRedis(t, redis.NewClient(&as), name)
	}
}

// answered returns the error of a TryLock whose scripts a proxy answers in place of the
// server.
func answered(reply string) produce {
	return func(t *testing.T) string {
		proxy := faultproxy.Start(t, redistest.Start(t).Addr())
		proxy.On(faultproxy.Command("EVALSHA", "EVAL"), faultproxy.Reply("-"+reply+"\r\n"), faultproxy.Always())
		return tryRedis(t, redis.NewClient(&redis.Options{Addr: proxy.Addr()}), "job")
	}
}

// exhausted returns the error of a TryLock while the program uses the only connection. The
// client waits for a connection for the time poolTimeout, and by default longer than the call.
func exhausted(poolTimeout time.Duration) produce {
	return func(t *testing.T) string {
		client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr(), PoolSize: 1, PoolTimeout: poolTimeout, ContextTimeoutEnabled: true})
		defer client.Close()
		l := holdfast.New(redishold.New(goredisconn.New(client), nil), nil)
		defer must.Drain(t, l)
		must.Unlock(t, must.Lock(t, l, "job"))
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := l.TryLock(await.Context(t, 600*time.Millisecond), "job")
		return words(t, err)
	}
}

// closed returns the error of a TryLock over a client that the program has closed.
func closed(t *testing.T) string {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	return tryRedis(t, client, "job")
}

func unreachable(t *testing.T) string {
	return tryRedis(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), "job")
}

func redisMessages() map[string]produce {
	do := func(lines ...[]string) func(*redistest.Server) {
		return func(s *redistest.Server) {
			for _, args := range lines {
				s.Do(args...)
			}
		}
	}
	replica := func(serveStale string) func(*redistest.Server) {
		return do([]string{"CONFIG", "SET", "replica-serve-stale-data", serveStale}, []string{"REPLICAOF", "127.0.0.1", "1"})
	}
	return map[string]produce{
		"cannot connect to …: connection refused":                                      unreachable,
		"no connection free in the pool of …":                                          exhausted(0),
		"redis: connection pool timeout":                                               exhausted(20 * time.Millisecond),
		"close the client only after the last lock is unlocked and Drain has returned": closed,

		"NOAUTH":    onRedis("job", nil, redistest.Password("secret")),
		"WRONGPASS": loggedIn(redis.Options{Password: "guess"}, "job", nil, redistest.Password("secret")),
		"nothing was written; grant it with: ACL SETUSER <user> …": loggedIn(redis.Options{Username: "app", Password: "app"}, "job",
			do([]string{"ACL", "SETUSER", "app", "on", ">app", "~*", "&*", "+@all", "-hset"})),
		"READONLY":    onRedis("job", replica("yes")),
		"MASTERDOWN":  onRedis("job", replica("no")),
		"LOADING":     answered("LOADING Redis is loading the dataset in memory"),
		"CLUSTERDOWN": onRedis("job", nil, redistest.Conf("cluster-enabled yes")),
		"OOM":         onRedis("job", nil, redistest.MaxMemory("100kb", "noeviction")),
		"MISCONF":     answered("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk"),
		"WRONGTYPE":   onRedis("job", do([]string{"SET", "job", "data", "PX", "60000"})),
		"CROSSSLOT":   answered("CROSSSLOT Keys in request don't hash to the same slot"),
		"belongs to another kind of lock, or to none": onRedis("job",
			do([]string{"HSET", "job", "mode", "read", "71b96ce8-2746-4f0e-9d4a-0f6f0b7f2c11:57", "1"}, []string{"PEXPIRE", "job", "60000"})),
		"in a cluster its braces must be balanced":      onRedis("a{", nil, redistest.Conf("cluster-enabled yes")),
		`redis cannot keep the locks "…" and "…" apart`: onRedis("{job}", nil),
		"is too old: holdfast needs 6.2 or newer":       tooOld,
	}
}

// tooOld returns the error of a TryLock on a server that says that it is Redis 5.
func tooOld(t *testing.T) string {
	proxy := faultproxy.Start(t, redistest.Start(t).Addr())
	info := "redis_version:5.0.7\r\n"
	proxy.On(faultproxy.Command("INFO"), faultproxy.Reply("$21\r\n"+info+"\r\n"), faultproxy.Always())
	return tryRedis(t, redis.NewClient(&redis.Options{Addr: proxy.Addr(), Protocol: 2}), "job")
}
