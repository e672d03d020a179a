package pghold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/sqlidle"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// source calls the function `use` with a connection of a pool, and returns the error of `use`.
// If the pool has no connection, source returns an error which says that nothing was executed.
type source func(ctx context.Context, use func(*pgx.Conn) error) error

// renewing is the key of a context value that marks a renewal.
type renewing struct{}

// Renew extends the leases of the claims that are held. The documentation of New says what
// Renew does if the pool has no connection.
func (b *Backend) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	return b.engine.Renew(context.WithValue(ctx, renewing{}, true), cs)
}

// pool lends the connections of a pgxpool.Pool. A dead connection takes room in the Pool until
// it is closed, for up to 15 seconds. A renewal does not wait for so long: it gets an extra
// connection.
type pool struct {
	*pgxpool.Pool
	extraConn chan struct{} // full while there is an extra connection
}

func newPool(of *pgxpool.Pool) *pool { return &pool{of, make(chan struct{}, 1)} }

func (p *pool) lend(ctx context.Context, use func(*pgx.Conn) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if ctx.Value(renewing{}) != nil {
		limited, cancel = half(ctx)
	}
	began := time.Now()
	conn, err := p.Acquire(limited)
	late := limited.Err() != nil
	cancel()
	switch {
	case err == nil:
		defer conn.Release()
		return use(conn.Conn())
	case late:
		s := p.Stat()
		err = unsent.NoneFree(int(s.MaxConns()), int(s.AcquiredConns()+s.ConstructingConns()), time.Since(began), err)
	}
	if !late || ctx.Err() != nil || limited == ctx {
		return noConnection(err)
	}
	return p.lendExtra(ctx, err, use)
}

// half returns a context that ends after half of the time until the deadline of ctx. Without a
// deadline it returns ctx.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	until, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(until)/2)
}

// lendExtra makes a connection for this call alone, and calls the function `use` with it. A
// Backend has at most one such connection at a time. The error `none` says why the pool has no
// connection.
func (p *pool) lendExtra(ctx context.Context, none error, use func(*pgx.Conn) error) error {
	select {
	case p.extraConn <- struct{}{}:
		defer func() { <-p.extraConn }()
	case <-ctx.Done():
		return noConnection(none)
	}
	conn, err := p.connect(ctx)
	if err != nil {
		return noConnection(fmt.Errorf("%w; and beside the pool: %w", none, err))
	}
	defer closeConn(ctx, conn)
	conn.PgConn().CustomData()[modeKey] = pgx.QueryExecModeExec // preparing saves no time for one call
	return use(conn)
}

// connect makes a connection with the settings and functions of the pool.
func (p *pool) connect(ctx context.Context) (*pgx.Conn, error) {
	config := p.Config()
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, err
	}
	ok := true
	if config.AfterConnect != nil {
		err = config.AfterConnect(ctx, conn)
	}
	if err == nil && config.PrepareConn != nil {
		ok, err = config.PrepareConn(ctx, conn)
	}
	if err == nil && !ok {
		err = errors.New("PrepareConn refused the connection")
	}
	if err != nil {
		closeConn(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// lendOf returns the source of a pool of database/sql. This source needs no extra connections,
// because a pool of database/sql does not count a connection any more as soon as the connection
// is known to be dead.
func lendOf(db *sql.DB) source {
	idle := sqlidle.New(db)
	return func(ctx context.Context, use func(*pgx.Conn) error) (err error) {
		defer func() { idle.Noted(err) }()
		began := time.Now()
		conn, err := db.Conn(ctx)
		if err != nil {
			return noConnection(idle.NoneFree(began, err))
		}
		defer conn.Close()
		return conn.Raw(func(c any) error {
			own, ok := c.(*stdlib.Conn)
			if !ok {
				return fmt.Errorf("pghold: the connections of the pool are %T, want those of github.com/jackc/pgx/v5/stdlib: %w, %w",
					c, driver.ErrRefused, driver.ErrNotExecuted)
			}
			return use(own.Conn())
		})
	}
}
