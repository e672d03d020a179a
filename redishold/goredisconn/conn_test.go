package goredisconn

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The clients that New is meant for.
var (
	_ Client  = (*redis.Client)(nil)
	_ Client  = (*redis.ClusterClient)(nil)
	_ Client  = redis.UniversalClient(nil)
	_ cluster = (*redis.ClusterClient)(nil)
)

// mute is a server that accepts connections and says nothing.
func mute(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func connTo(t *testing.T, addr string) *Conn {
	client := redis.NewClient(&redis.Options{
		Addr: addr, ReadTimeout: 300 * time.Millisecond, DialerRetries: 1,
	})
	t.Cleanup(func() { client.Close() })
	return New(client)
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	conn := connTo(t, addr)
	_, err = conn.Server(context.Background())
	if !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("got error %v, want ErrNotExecuted", err)
	}
	_, err = conn.Subscribe(context.Background(), redishold.Channel{Name: "c"}, func(redishold.Notice) {})
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, context.Canceled) {
		t.Errorf("Subscribe: got error %v, want ErrNotExecuted, and no end of a context", err)
	}
}

func TestMuteServer(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: mute(t), ReadTimeout: 10 * time.Second})
	defer client.Close()
	conn := New(client)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := await.NewWatch(t)
	if _, err := conn.Server(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want DeadlineExceeded", err)
	}
	if took := start.Took(); took > 5*time.Second {
		t.Errorf("took %v, want the context's 50ms, not the library's 10s", took)
	}
}

// If no node of a cluster replies, the context ends the wait.
func TestMuteCluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{mute(t)}, ReadTimeout: 300 * time.Millisecond})
	defer client.Close()
	conn := New(client)
	for _, sharded := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err := conn.Subscribe(ctx, redishold.Channel{Name: "c", Sharded: sharded}, func(redishold.Notice) {})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrNotExecuted) {
			t.Errorf("sharded %v: got error %v, want DeadlineExceeded, not sent", sharded, err)
		}
	}
}
