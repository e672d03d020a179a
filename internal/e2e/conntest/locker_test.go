package conntest

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// The Locker of the short constructor has the layout of Redisson and the options of its caller,
// and its Logger also gets the warnings of the store.
func TestLocker(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, addr string, opts *holdfast.Options) *holdfast.Locker{
		"rueidis": func(t *testing.T, addr string, opts *holdfast.Options) *holdfast.Locker {
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return rueidisconn.Locker(client, opts)
		},
		"goredis": func(t *testing.T, addr string, opts *holdfast.Options) *holdfast.Locker {
			client := redis.NewClient(&redis.Options{Addr: addr})
			t.Cleanup(func() { _ = client.Close() })
			return goredisconn.Locker(client, opts)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.MaxMemory("0", "allkeys-lru"))
			var logged bytes.Buffer
			log := slog.New(slog.NewTextHandler(&logged, nil))
			const ttl = 8 * time.Second
			l := open(t, server.Addr(), &holdfast.Options{TTL: ttl, Logger: log})
			lock := must.Lock(t, l, "stock:42")
			if left := server.Int("PTTL", "stock:42"); left > ttl.Milliseconds() || left <= 0 {
				t.Errorf("the key lives for another %d ms, want the TTL of the options, %v", left, ttl)
			}
			must.Unlock(t, lock)
			must.Drain(t, l)
			if !strings.Contains(logged.String(), "allkeys-lru") {
				t.Errorf("got the log %q, want the warning of the store", logged.String())
			}
			other := open(t, server.Addr(), nil)
			must.Unlock(t, must.Lock(t, other, "stock:42"))
			must.Drain(t, other)
		})
	}
}
