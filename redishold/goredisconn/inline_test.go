package goredisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

// If the program uses all connections of the pool, a call in the goroutine of its caller waits
// for one only until its context ends.
func TestInlineWithoutAFreeConnection(t *testing.T) {
	asked := make(chan struct{}, 1)
	addr := must.Serve(t, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			asked <- struct{}{}
			_, _ = io.Copy(io.Discard, c) // no reply
		}
	})
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, PoolTimeout: 5 * time.Second, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	busy, free := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Ping(busy)
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &redishold.Call{Script: wire.NewScript("test", "return 1")}
	if r := newLibrary(client).RunInline(ctx, nil, call, true); !errors.Is(r.Err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", r.Err)
	}
	free()
	_ = client.Close()
	<-ended
}

// A call beside others needs one more connection that was used a moment ago.
func TestMayInline(t *testing.T) {
	const enough = 2 * inlineTimeout
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	l := newLibrary(client)
	may := func(inFlight int, left time.Duration, want bool) {
		t.Helper()
		if got := l.MayInline(left, inFlight); got != want {
			t.Errorf("beside %d others, with %v left: got %v", inFlight, left, got)
		}
	}
	may(0, enough, false) // the first call of all
	may(0, enough, true)
	may(0, enough-1, false)
	may(1, enough, false) // the first call beside another
	may(1, enough, true)
	may(fewCalls-1, enough, false)
	may(fewCalls-1, enough, true)
	call := &redishold.Call{Script: wire.NewScript("test", "return 1")}
	if r := l.RunInline(t.Context(), nil, call, true); r.Err == nil {
		t.Fatal("no error without a server")
	}
	for n := range fewCalls {
		may(n, enough, false) // after an error
	}
	fifo := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", PoolFIFO: true})
	defer fifo.Close()
	l = newLibrary(fifo)
	may(0, enough, false)
	may(0, enough, false) // it takes the connection that was used first
}
