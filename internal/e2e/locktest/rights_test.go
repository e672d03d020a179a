package locktest

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/redishold"
)

// commonRights are those that docs/redis.md lists for every kind of lock.
const commonRights = "~app:* &redisson_lock__channel:* " +
	"+evalsha +eval +subscribe +unsubscribe +publish +info +hello +ping +client|setname " +
	"+exists +del +pexpire +pttl +get +set +hget +hset +hdel +hexists +hlen +hkeys +hgetall +time"

// righted is a kind of lock with the rights that docs/redis.md lists for it.
type righted struct {
	rights string // beside commonRights
	opts   redishold.Options
	use    func(ctx context.Context, l *holdfast.Locker) error
}

func rightsOfKinds() map[string]righted {
	mutex := func(ctx context.Context, l *holdfast.Locker) error { return l.Mutex("a").Do(ctx, nothing) }
	return map[string]righted{
		"mutex": {use: mutex},
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
				if _, err := l.CountDownLatch("a").TrySet(ctx, 1); err != nil {
					return err
				}
				return l.CountDownLatch("a").CountDown(ctx)
			},
		},
		"plain": {
			rights: "&holdfast:free:*",
			opts:   redishold.Options{Layout: redishold.Plain},
			use:    mutex,
		},
		"timestamp": {
			rights: "&holdfast:free:*",
			opts:   redishold.Options{Layout: redishold.Timestamp},
			use:    mutex,
		},
		"shared tokens": {
			rights: "~redisson_lock_token:*",
			opts:   redishold.Options{SharedTokens: true},
			use:    mutex,
		},
	}
}

// The rights that docs/redis.md lists are enough, for each kind of lock.
func TestDocumentedRightsAreEnough(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range rightsOfKinds() {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(doc), kind.rights) {
				t.Errorf("docs/redis.md does not list %q", kind.rights)
			}
			eachAdapter(t, func(s *subject) {
				rule := append([]string{"ACL", "SETUSER", "app", "reset", "resetchannels", "on", ">app"}, strings.Fields(commonRights+" "+kind.rights)...)
				if err, ok := s.server.Do(rule...).(error); ok {
					s.Fatal(err)
				}
				conn, shut, err := dial.Server(s.adapter, s.server.Addr(), "app", "app")
				if err != nil {
					s.Fatal(err)
				}
				defer shut()
				opts := kind.opts
				opts.KeyPrefix = "app:"
				if err := kind.use(s.Context(), holdfast.New(redishold.New(conn, &opts), nil)); err != nil {
					s.Error(err)
				}
				s.server.Do("FLUSHALL")
			})
		})
	}
}

// Who grants what the errors say, and nothing else, has granted enough, and nothing
// that docs/redis.md does not list: no wider right than is needed.
func TestProposedRightsAreThoseOfTheDocuments(t *testing.T) {
	for name, kind := range rightsOfKinds() {
		t.Run(name, func(t *testing.T) {
			eachAdapter(t, func(s *subject) {
				listed := strings.Fields(commonRights + " " + kind.rights)
				if kind.opts.Layout != redishold.Redisson { // whose channel is another one
					listed = slices.DeleteFunc(listed, func(rule string) bool { return rule == "&redisson_lock__channel:*" })
				}
				grant := func(rules ...string) {
					s.Helper()
					if err, ok := s.server.Do(append([]string{"ACL", "SETUSER", "app"}, rules...)...).(error); ok {
						s.Fatal(err)
					}
				}
				grant("reset", "on", ">app", "+info", "+hello", "+ping", "+client|setname", "resetchannels")
				conn, shut, err := dial.Server(s.adapter, s.server.Addr(), "app", "app")
				if err != nil {
					s.Fatal(err)
				}
				defer shut()
				opts := kind.opts
				opts.KeyPrefix = "app:"
				locker := holdfast.New(redishold.New(conn, &opts), nil)
				for range 60 {
					err = kind.use(s.Context(), locker)
					if err == nil {
						break
					}
					rules := proposed(err)
					s.Logf("%v", err)
					for _, rule := range rules {
						fits := func(doc string) bool { // the keys of this name, where the documents have those of all
							pattern, all := strings.CutSuffix(doc, "*")
							return rule == doc || rule[0] == '~' && all && strings.HasPrefix(rule, pattern)
						}
						if !slices.ContainsFunc(listed, fits) {
							s.Errorf("got %q proposed, which docs/redis.md does not list for this kind: %v", rule, err)
						}
					}
					if len(rules) == 0 {
						break
					}
					grant(rules...)
				}
				if err != nil {
					s.Errorf("got %v with all that was proposed", err)
				}
				if err := locker.Drain(s.Context()); err != nil { // of claims that were refused half-way
					s.Error(err)
				}
				s.server.Do("FLUSHALL")
			})
		})
	}
}

// proposed returns the ACL rules that an error says to grant.
func proposed(err error) (rules []string) {
	text := err.Error()
	for _, before := range []string{"ACL SETUSER <user> ", "grant the user "} {
		if _, after, ok := strings.Cut(text, before); ok {
			for _, word := range strings.Fields(after) {
				if !strings.Contains("+~&", word[:1]) {
					break
				}
				rules = append(rules, word)
			}
			return rules
		}
	}
	return nil
}

func nothing(context.Context, *holdfast.Lock) error { return nil }
