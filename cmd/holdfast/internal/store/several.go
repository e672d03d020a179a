package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// How long the program waits for the servers of a quorum. After that, it starts without the
// servers that have not answered.
const (
	introduction = time.Second
	stragglers   = 300 * time.Millisecond // the wait for the other servers, after a majority has answered
)

// openSeveral opens a store of several servers.
func (o *Connection) openSeveral(ctx context.Context, r Request, l *Location, locks *redishold.Options, report *output.Reporter) (*open.Store, error) {
	if o.EventLog {
		return nil, output.UsageError("a lock on several servers has no event log: leave out --event-log, or give --event-log=false if the configuration turns it on")
	}
	conns := make([]*lateConn, len(l.Servers))
	members := make([]driver.Backend, len(l.Servers))
	for i, a := range l.Servers {
		conns[i] = newLateConn(a)
		members[i] = redishold.New(conns[i], locks)
	}
	backend, err := quorum.Of(members...)
	if err != nil {
		return nil, output.UsageError("%s: %w", l.Source, err)
	}
	if err := o.suits(l.Kind, backend.Info(), r); err != nil {
		return nil, err
	}
	opened := open.Several(backend, func() {
		for _, c := range conns {
			c.close()
		}
	})
	if err := meet(ctx, l.Source, conns, report); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// meet connects to all servers. It only warns about an unreachable server, because the others
// may be enough. It returns any other error, because a later attempt would fail, too.
func meet(ctx context.Context, source string, conns []*lateConn, report *output.Reporter) error {
	first, cancel := context.WithTimeout(ctx, introduction)
	defer cancel()
	errs := make([]error, len(conns))
	var wg sync.WaitGroup
	var met atomic.Int32
	for i, c := range conns {
		wg.Go(func() {
			_, errs[i] = c.get(first)
			if errs[i] == nil && int(met.Add(1)) == len(conns)/2+1 {
				time.AfterFunc(stragglers, cancel)
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil || ctx.Err() != nil {
			continue
		}
		where := conns[i].access.Place()
		if own, ok := errors.AsType[*output.ExitError](OpenError(first, open.Redis, source, err)); ok && own.Code != output.ExitUnreachable {
			return &output.ExitError{Code: own.Code, Err: fmt.Errorf("%s: %w", where, own.Err)}
		}
		report.Warn("%s is unreachable, so a majority must come from the other servers: %v", where, err)
	}
	return nil
}

// lateConn is a Conn to one server of several. The server may be unreachable when the program
// starts. So each call tries to connect, until an attempt has succeeded.
type lateConn struct {
	access open.Access
	conn   chan *rueidisconn.Conn // capacity 1: has the connection, or nil before there is one; empty while a call connects
}

var _ redishold.Conn = (*lateConn)(nil)

func newLateConn(a open.Access) *lateConn {
	c := &lateConn{access: a, conn: make(chan *rueidisconn.Conn, 1)}
	c.conn <- nil
	return c
}

// get returns the connection. It returns the errors of Access.Connect, and that of ctx.
func (c *lateConn) get(ctx context.Context) (conn *rueidisconn.Conn, err error) {
	select {
	case conn = <-c.conn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn == nil {
		conn, err = c.access.Connect(ctx)
	}
	c.conn <- conn
	return conn, err
}

// Do implements redishold.Conn.
func (c *lateConn) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	conn, err := c.get(ctx)
	if err != nil {
		return slices.Repeat([]redishold.Result{{Err: unsent.Error(err)}}, len(calls))
	}
	return conn.Do(ctx, calls...)
}

// Subscribe implements redishold.Conn.
func (c *lateConn) Subscribe(ctx context.Context, ch redishold.Channel, notify func(redishold.Notice)) (redishold.Subscription, error) {
	conn, err := c.get(ctx)
	if err != nil {
		return nil, unsent.Error(err)
	}
	return conn.Subscribe(ctx, ch, notify)
}

// Server implements redishold.Conn.
func (c *lateConn) Server(ctx context.Context) (redishold.ServerInfo, error) {
	conn, err := c.get(ctx)
	if err != nil {
		return redishold.ServerInfo{}, unsent.Error(err)
	}
	return conn.Server(ctx)
}

// close closes the connection, if there is one. No other method may be called after it.
func (c *lateConn) close() {
	conn := <-c.conn
	if conn != nil {
		conn.Close()
	}
	c.conn <- conn
}
