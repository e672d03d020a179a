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
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
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
	if r := newLibrary(client).RunInline(ctx, adapter.OverOwn, call); !errors.Is(r.Err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", r.Err)
	}
	free()
	_ = client.Close()
	<-ended
}

// Calls run in the goroutines of their callers if go-redis ends them at their deadlines.
func TestPlanInline(t *testing.T) {
	for _, tt := range []struct {
		options redis.Options
		want    adapter.InlinePlan
	}{
		{redis.Options{ContextTimeoutEnabled: true}, adapter.OverOwn},
		{redis.Options{}, adapter.NotInline},
		{redis.Options{ContextTimeoutEnabled: true, ReadTimeout: -1}, adapter.OverOwn},
		{redis.Options{ContextTimeoutEnabled: true, ReadTimeout: -2}, adapter.NotInline}, // sets no deadline
		{redis.Options{ContextTimeoutEnabled: true, WriteTimeout: -2}, adapter.NotInline},
	} {
		client := redis.NewClient(&tt.options)
		defer client.Close()
		if got := newLibrary(client).PlanInline(0); got != tt.want {
			t.Errorf("ReadTimeout %v, WriteTimeout %v: got %v, want %v", tt.options.ReadTimeout, tt.options.WriteTimeout, got, tt.want)
		}
	}
}
