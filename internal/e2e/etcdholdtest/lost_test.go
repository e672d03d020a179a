package etcdholdtest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// A call of a renewal that has no answer is made again, in time for the renewal.
func TestCallOfARenewalIsMadeAgain(t *testing.T) {
	t.Parallel()
	for _, silent := range []string{"LeaseKeepAlive", "LeaseTimeToLive"} {
		t.Run(silent, func(t *testing.T) {
			t.Parallel()
			var armed, hit atomic.Bool // the next such call has no answer; one had none
			hits := func(method string) bool {
				now := strings.HasSuffix(method, "/"+silent) && armed.CompareAndSwap(true, false)
				if now {
					hit.Store(true)
				}
				return now
			}
			const ttl = 4 * shortest
			b := openOn(t, server, ttl,
				grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					if hits(method) {
						return etcdtest.Silence(ctx)
					}
					return invoke(ctx, method, req, reply, cc, opts...)
				}),
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					s, err := open(ctx, desc, cc, method, opts...)
					if err == nil && hits(method) {
						return &etcdtest.KeepAlive{ClientStream: s, Silences: func(context.Context) bool { return true }}, nil
					}
					return s, err
				}))
			renewed := make(chan error, 1)
			l := holdfast.New(b, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
				if e.Type == holdfast.EventRenew && hit.CompareAndSwap(true, false) {
					renewed <- e.Err
				}
			}})
			t.Cleanup(func() { must.Drain(t, l) })
			defer must.Unlock(t, must.Lock(t, l, strings.ReplaceAll(t.Name(), "/", "-")))
			var err error
			for range 2 { // on a busy machine the second call may be late, too
				armed.Store(true)
				select {
				case err = <-renewed:
				case <-within(t).Done():
					t.Fatal("no renewal was reported")
				}
				if err == nil {
					return
				}
			}
			t.Errorf("two renewals failed, the last with %v", err)
		})
	}
}
