package etcdholdtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// TestLostAnswers has clients contend for a lock while a fifth of the answers is lost.
func TestLostAnswers(t *testing.T) {
	loseAnswers(t, lossytest.Store{Mutex: (*holdfast.Locker).FairMutex})
}

// TestLostAnswersOfPermits has clients contend for two permits meanwhile.
func TestLostAnswersOfPermits(t *testing.T) { loseAnswers(t, lossytest.Store{Permits: 2}) }

// loseAnswers runs s over the server.
func loseAnswers(t *testing.T, s lossytest.Store) {
	const ttl = 4 * shortest
	var l losses
	s.TTL, s.Left = ttl, left
	s.Open = func(t *testing.T) driver.Backend {
		return openOn(t, server, ttl, grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream))
	}
	s.Lost, s.Heal = func() int { return int(l.lost.Load()) }, func() { l.over.Store(true) }
	s.Run(t)
}

// losses loses a fifth of the answers to writes, and of those to renewals.
type losses struct {
	lost  atomic.Int64
	over  atomic.Bool
	until atomic.Int64 // when renewals have answers again, in nanoseconds since 1970
}

// hits decides about an answer.
func (l *losses) hits() bool {
	if l.over.Load() || rand.IntN(5) > 0 {
		return false
	}
	l.lost.Add(1)
	return true
}

// silences decides about an answer to a call of a renewal. The call is made again, at the
// next member, while the time of the renewal lasts: that has no answer either.
func (l *losses) silences(ctx context.Context) bool {
	switch end, _ := ctx.Deadline(); {
	case l.over.Load():
		return false
	case time.Now().UnixNano() < l.until.Load():
	case !l.hits():
		return false
	default:
		l.until.Store(end.UnixNano())
	}
	return true
}

// unary has a connection break before the answer to a write. A question that a renewal asks
// gets no answer at all: after an error the client would ask again by itself.
func (l *losses) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	_, call, _ := strings.Cut(method[1:], "/")
	switch {
	case (call == "Txn" || call == "DeleteRange") && l.hits():
		return status.Error(codes.Unavailable, "the test lost the answer")
	case call == "LeaseTimeToLive" && l.silences(ctx):
		return silence(ctx)
	}
	return err
}

// stream has no answer arrive to a KeepAlive.
func (l *losses) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err == nil && strings.HasSuffix(method, "/LeaseKeepAlive") {
		return &keepAlive{s, l.silences}, nil
	}
	return s, err
}

type keepAlive struct {
	grpc.ClientStream
	silences func(context.Context) bool
}

// RecvMsg receives an answer, or loses it.
func (k *keepAlive) RecvMsg(m any) error {
	err := k.ClientStream.RecvMsg(m)
	if err == nil && k.silences(k.Context()) {
		return silence(k.Context())
	}
	return err
}

// silence lasts as long as a call.
func silence(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

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
						return silence(ctx)
					}
					return invoke(ctx, method, req, reply, cc, opts...)
				}),
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					s, err := open(ctx, desc, cc, method, opts...)
					if err == nil && hits(method) {
						return &keepAlive{s, func(context.Context) bool { return true }}, nil
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
