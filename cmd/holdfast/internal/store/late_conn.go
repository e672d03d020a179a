package store

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// lateConn is a Conn to one of several servers, which may be unreachable when the program
// starts. Each call tries to connect until one has succeeded.
type lateConn struct {
	access access.Access
	turn   chan struct{} // capacity 1: one call at a time connects
	conn   atomic.Pointer[rueidisconn.Conn]
}

var _ redishold.Conn = (*lateConn)(nil)

func newLateConn(a access.Access) *lateConn {
	return &lateConn{access: a, turn: make(chan struct{}, 1)}
}

// get returns the connection. Its errors are those of Access.Open, or ctx's.
func (c *lateConn) get(ctx context.Context) (*rueidisconn.Conn, error) {
	if conn := c.conn.Load(); conn != nil {
		return conn, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn := c.conn.Load(); conn != nil {
		return conn, nil
	}
	conn, err := c.access.Open(ctx)
	if err != nil {
		return nil, err
	}
	c.conn.Store(conn)
	return conn, nil
}

// reach is get for calls. Its errors say that nothing was sent.
func (c *lateConn) reach(ctx context.Context) (*rueidisconn.Conn, error) {
	conn, err := c.get(ctx)
	if err != nil {
		return nil, unsent.Error(err)
	}
	return conn, nil
}

// Do implements redishold.Conn.
func (c *lateConn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	conn, err := c.reach(ctx)
	if err != nil {
		results := make([]redishold.Result, len(calls))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	return conn.Do(ctx, calls...)
}

// Subscribe implements redishold.Conn.
func (c *lateConn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	conn, err := c.reach(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Subscribe(ctx, ch, notify)
}

// Server implements redishold.Conn.
func (c *lateConn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	conn, err := c.reach(ctx)
	if err != nil {
		return redishold.ServerInfo{}, err
	}
	return conn.Server(ctx)
}

// close closes the connection, if there is one. No other method may be called after it.
func (c *lateConn) close() {
	if conn := c.conn.Load(); conn != nil {
		conn.Close()
	}
}
