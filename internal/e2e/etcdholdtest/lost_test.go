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
)

// TestLostAnswers has clients contend for a lock while a fifth of the answers is lost.
func TestLostAnswers(t *testing.T) {
	const ttl = 4 * shortest
	var l losses
	lossytest.Store{
		TTL: ttl, Mutex: (*holdfast.Locker).FairMutex,
		Open: func(t *testing.T) driver.Backend {
			return openOn(t, server, ttl, grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream))
		},
		Lost: func() int { return int(l.lost.Load()) },
		Heal: func() { l.over.Store(true) },
		Left: left,
	}.Run(t)
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
		return &keepAlive{s, l}, nil
	}
	return s, err
}

type keepAlive struct {
	grpc.ClientStream
	losses *losses
}

// RecvMsg receives an answer, or loses it.
func (k *keepAlive) RecvMsg(m any) error {
	err := k.ClientStream.RecvMsg(m)
	if err == nil && k.losses.silences(k.Context()) {
		return silence(k.Context())
	}
	return err
}

// silence lasts as long as a call.
func silence(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
