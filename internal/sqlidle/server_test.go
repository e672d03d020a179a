package sqlidle_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// server is a connector whose connections may be silent.
type server struct {
	silent        atomic.Bool
	pings, closed atomic.Int32
}

func (s *server) Connect(context.Context) (driver.Conn, error) { return &conn{s}, nil }
func (s *server) Driver() driver.Driver                        { return nil }

type conn struct{ s *server }

// Ping ends with ctx on a silent connection.
func (c *conn) Ping(ctx context.Context) error {
	c.s.pings.Add(1)
	if c.s.silent.Load() {
		<-ctx.Done()
		return driver.ErrBadConn
	}
	return nil
}

func (c *conn) Close() error {
	c.s.closed.Add(1)
	return nil
}

func (*conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (*conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
