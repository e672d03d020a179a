// Package sqlidle closes dead idle connections of a pool of database/sql. If the machine of the
// server fails, or if a network device on the path forgets the connections, nothing else closes
// them. Then calls would use these connections one after the other, and each of these calls
// would fail, before the pool makes a new connection.
package sqlidle

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
)

const (
	every = time.Second
	limit = 300 * time.Millisecond // the time limit of a ping; locks are not usable if a round trip takes longer
	most  = 200                    // the maximal number of connections that are tested at a time
)

// Pool is a pool whose idle connections are tested.
type Pool struct {
	db   *sql.DB
	last atomic.Int64 // when the idle connections were last tested, in Unix nanoseconds
}

// New returns the Pool of db. It does no I/O.
func New(db *sql.DB) *Pool { return &Pool{db: db} }

// Noted gets the error of a call. If err says that the call has timed out, Noted tests the idle
// connections, but once a second at most. It pings all of them at the same time, in the
// background, and database/sql closes those that do not answer.
func (p *Pool) Noted(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return
	}
	now, last := time.Now().UnixNano(), p.last.Load()
	if now-last < int64(every) || !p.last.CompareAndSwap(last, now) {
		return
	}
	for range min(p.db.Stats().Idle, most) {
		go p.try()
	}
}

// try pings one idle connection.
func (p *Pool) try() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.PingContext(ctx)
}

// NoneFree returns the error of a call that has got no connection and failed with err. The call
// began to wait for a connection at the time `began`. If err says that the context of the call
// has ended, and all connections of the pool are in use, NoneFree returns the error of
// unsent.NoneFree. Otherwise it returns err.
func (p *Pool) NoneFree(began time.Time, err error) error {
	s := p.db.Stats()
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !late || s.MaxOpenConnections == 0 || s.InUse < s.MaxOpenConnections {
		return err
	}
	return unsent.NoneFree(s.MaxOpenConnections, s.InUse, time.Since(began), err)
}
