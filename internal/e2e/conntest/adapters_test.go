package conntest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// login is what an adapter needs to know of a server.
type login struct{ addr, user, password string }

// subject is one adapter in one configuration. open returns how to close what it
// opened; it may fail at once or leave that to the first call.
type subject struct {
	name string
	open func(login) (redishold.Conn, func(), error)
}

// subjects are all of them, or with -short one of each adapter.
func subjects() []subject {
	all := []subject{
		{"rueidis/Open", openRueidis},
		{"rueidis/New", newRueidis},
		{"goredis/defaults", openGoRedis},
		{"goredis/ContextTimeoutEnabled", func(l login) (redishold.Conn, func(), error) {
			return newGoRedis(l, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		}},
		{"goredis/RESP2", func(l login) (redishold.Conn, func(), error) {
			return newGoRedis(l, func(o *redis.Options) { o.Protocol = 2 })
		}},
	}
	if testing.Short() {
		return []subject{all[0], all[2]}
	}
	return all
}

// sized is how much a test does: less with -short.
func sized(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

func openRueidis(l login) (redishold.Conn, func(), error) {
	return dial.Server("rueidis", l.addr, l.user, l.password)
}

func newRueidis(l login) (redishold.Conn, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{l.addr}, Username: l.user, Password: l.password})
	if err != nil {
		return nil, nil, err
	}
	return rueidisconn.New(client), client.Close, nil
}

func openGoRedis(l login) (redishold.Conn, func(), error) {
	return dial.Server("goredis", l.addr, l.user, l.password)
}

func newGoRedis(l login, change func(*redis.Options)) (redishold.Conn, func(), error) {
	o := &redis.Options{Addr: l.addr, Username: l.user, Password: l.password}
	change(o)
	client := redis.NewClient(o)
	return goredisconn.New(client), func() { _ = client.Close() }, nil
}

// env is a server, a proxy in front of it, and a Conn through the proxy.
type env struct {
	*testing.T
	server *redistest.Server
	proxy  *faultproxy.Proxy
	conn   redishold.Conn
	close  func()
}

// each runs test for every adapter, with a server and a proxy of its own, some at
// the same time: they wait for most of it.
func each(t *testing.T, test func(e *env)) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			e := &env{T: t, server: server, proxy: faultproxy.Start(t, server.Addr())}
			var err error
			e.conn, e.close, err = s.open(login{addr: e.proxy.Addr()})
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			t.Cleanup(e.close)
			// Load what the client does once, such as its handshake.
			if r := e.conn.Do(await.Context(t, 5*time.Second), call("return 1")); r[0].Err != nil {
				t.Fatalf("first call: %v", r[0].Err)
			}
			test(e)
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, dial.Sleepers()...) }

func call(source string, args ...string) redishold.Call {
	return redishold.Call{Script: redishold.NewScript("test", source), Keys: []string{"k"}, Args: args}
}
