package etcdtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Loss loses a fifth of the answers to writes, and of those to renewals.
type Loss struct {
	lost  atomic.Int64
	over  atomic.Bool
	until atomic.Int64 // when renewals have answers again, in nanoseconds since 1970
}

// Options has a client lose answers.
func (l *Loss) Options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(l.unary), grpc.WithChainStreamInterceptor(l.stream)}
}

// Heal ends the losses.
func (l *Loss) Heal() { l.over.Store(true) }

// Lost returns how many answers were lost so far.
func (l *Loss) Lost() int { return int(l.lost.Load()) }

// hits decides about an answer.
func (l *Loss) hits() bool {
	if l.over.Load() || rand.IntN(5) > 0 {
		return false
	}
	l.lost.Add(1)
	return true
}

// silences decides about an answer to a call of a renewal. The call is made again, at the
// next member, while the time of the renewal lasts: that has no answer either.
func (l *Loss) silences(ctx context.Context) bool {
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
func (l *Loss) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	_, call, _ := strings.Cut(method[1:], "/")
	switch {
	case (call == "Txn" || call == "DeleteRange") && l.hits():
		return status.Error(codes.Unavailable, "the test lost the answer")
	case call == "LeaseTimeToLive" && l.silences(ctx):
		return Silence(ctx)
	}
	return err
}

// stream has no answer arrive to a KeepAlive.
func (l *Loss) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err == nil && strings.HasSuffix(method, "/LeaseKeepAlive") {
		return &KeepAlive{s, l.silences}, nil
	}
	return s, err
}

// KeepAlive is the stream of a renewal.
type KeepAlive struct {
	grpc.ClientStream
	Silences func(context.Context) bool // whether the next answer is lost
}

// RecvMsg receives an answer, or loses it.
func (k *KeepAlive) RecvMsg(m any) error {
	err := k.ClientStream.RecvMsg(m)
	if err == nil && k.Silences(k.Context()) {
		return Silence(k.Context())
	}
	return err
}

// Silence lasts as long as a call.
func Silence(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
