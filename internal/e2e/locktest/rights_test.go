package locktest

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redishold"
)

// The rights that docs/redis.md lists are enough, for each kind of lock.
func TestDocumentedRightsAreEnough(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	const common = "~app:* &redisson_lock__channel:* " +
		"+evalsha +eval +subscribe +unsubscribe +publish +info +hello +ping +client|setname " +
		"+exists +del +pexpire +pttl +get +set +hget +hset +hdel +hexists +hlen +hkeys +hgetall +time"
	kinds := map[string]struct {
		rights string
		opts   redishold.Options
		use    func(ctx context.Context, l *holdfast.Locker) error
	}{
		"mutex": {use: func(ctx context.Context, l *holdfast.Locker) error {
			return l.Mutex("a").Do(ctx, nothing)
		}},
		"fair": {
			rights: "~redisson_lock_queue:* ~redisson_lock_timeout:* +hmget +lindex +llen +lpop +lpos +lrange +lrem +rpush +zadd +zcount +zmscore +zrange +zrem +zremrangebyscore +zscore",
			use:    func(ctx context.Context, l *holdfast.Locker) error { return l.FairMutex("a").Do(ctx, nothing) },
		},
		"read-write": {
			rights: "~{app:* &redisson_rwlock:* +hscan",
			use: func(ctx context.Context, l *holdfast.Locker) error {
				if err := l.RWMutex("a").Read.Do(ctx, nothing); err != nil {
					return err
				}
				return l.RWMutex("a").Write.Do(ctx, nothing)
			},
		},
		"semaphore": {
			rights: "~{app:* &redisson_sc:* +incrby +zadd +zcard +zcount +zrangebyscore +zrem +zscore",
			use:    func(ctx context.Context, l *holdfast.Locker) error { return l.Semaphore("a", 2).Do(ctx, nothing) },
		},
		"latch": {
			rights: "&redisson_countdownlatch__channel__* +incrby",
			use: func(ctx context.Context, l *holdfast.Locker) error {
				if _, err := l.CountDownLatch("a").Set(ctx, 1); err != nil {
					return err
				}
				return l.CountDownLatch("a").Done(ctx)
			},
		},
		"plain": {
			rights: "&holdfast:free:*",
			opts:   redishold.Options{Protocol: redishold.Plain},
			use:    func(ctx context.Context, l *holdfast.Locker) error { return l.Mutex("a").Do(ctx, nothing) },
		},
		"shared tokens": {
			rights: "~redisson_lock_token:*",
			opts:   redishold.Options{SharedTokens: true},
			use:    func(ctx context.Context, l *holdfast.Locker) error { return l.Mutex("a").Do(ctx, nothing) },
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(doc), kind.rights) {
				t.Errorf("docs/redis.md does not list %q", kind.rights)
			}
			eachAdapter(t, func(s *subject) {
				rule := append([]string{"ACL", "SETUSER", "app", "reset", "on", ">app"}, strings.Fields(common+" "+kind.rights)...)
				if err, ok := s.server.Do(rule...).(error); ok {
					s.Fatal(err)
				}
				conn, shut, err := dial(s.adapter, s.server.Addr(), "app", "app")
				if err != nil {
					s.Fatal(err)
				}
				defer shut()
				opts := kind.opts
				opts.Prefix = "app:"
				if err := kind.use(s.Context(), holdfast.New(redishold.New(conn, &opts), nil)); err != nil {
					s.Error(err)
				}
				s.server.Do("FLUSHALL")
			})
		})
	}
}

func nothing(context.Context, *holdfast.Lock) error { return nil }
