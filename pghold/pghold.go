// Package pghold keeps locks in a table of PostgreSQL: a lease row for each name, with a
// fencing token that rises with every grant.
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	locker := holdfast.New(pghold.New(pool, nil), nil)
//
// The table is made by Backend.CreateTable, or by an administrator; until it is there, every
// Lock fails with an error that prints the statement. Names are case-exact, of up to 512
// bytes. A row per name stays after its release, and keeps the token; deleting those of
// free names does no harm, as a new token is never below the server's clock in
// microseconds.
//
// With Options.Layout set to ShedLock the table is that of ShedLock, and its users are
// excluded, too; see there what that layout lacks.
//
// Locks are exclusive. There is no read-write lock, no semaphore, no fair lock and no
// latch: those answer errors.ErrUnsupported.
//
// All statements are transactions of their own and work at any isolation level, and
// behind a pooler in transaction mode. They are prepared where the pool is made for that,
// as pgx makes it by default, and leads to the server itself. Waiters look at their
// rows, 1 to 100 ms after each other; with Options.Listen they are woken by NOTIFY instead.
//
// The lease is as durable as the data. After the promotion of a standby that had not
// received the last commits a lock may have two holders; with synchronous_commit and a
// synchronous standby it has not. Where the lock protects rows of the same database,
// Backend.LockTx is safe even then.
//
// LockAdvisory is apart from all that: it waits for, and holds, the session locks that
// migration tools use.
package pghold

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/shedlock"
)

// DefaultTable is the table that is used if Options.Table is "".
const DefaultTable = "holdfast_locks"

// longestChannel is the longest name of a channel in bytes, as of a table: of a longer one
// the server takes as much.
const longestChannel = 63

// Options are the settings of New and NewDB. The zero value is right for many programs.
type Options struct {
	// Layout is that of the table. Default: LeaseRows.
	Layout Layout

	// Table is the name of the table, with its schema if that is not in the search
	// path: "locks" or "ops.locks". Default: DefaultTable, or "shedlock" with the Layout
	// ShedLock.
	Table string

	// Listen is how to connect to the server itself, not to a pooler, to learn of
	// releases by NOTIFY. The backend has one connection with it while somebody waits,
	// and for two seconds after. Where the pool goes to the server, pool.Config().ConnConfig is right,
	// unless the pool has a BeforeConnect, which it does not have.
	// If it cannot be had, or leads to a pooler, waiters look at their rows meanwhile.
	// Programs with and without it may share a table: releases wake those who listen,
	// whichever client releases. It has no meaning with the Layout ShedLock, in which nobody
	// notifies. Default: nil, waiters look.
	Listen *pgx.ConnConfig

	// Logger receives what cannot be returned: that Listen leads to a pooler. Default:
	// none.
	Logger *slog.Logger
}

// engine is embedded for its methods.
type engine = rows.Engine

// Backend keeps locks in PostgreSQL. It is a driver.Backend, a driver.Batcher, a
// driver.Drainer and an admin.Source. Its methods may be called from several goroutines at once.
type Backend struct {
	*engine
	table *table
}

var (
	_ driver.Backend = (*Backend)(nil)
	_ driver.Batcher = (*Backend)(nil)
	_ driver.Drainer = (*Backend)(nil)
)

// New returns a Backend over pool, which stays the caller's to close. It does no I/O.
// opts may be nil.
func New(pool *pgxpool.Pool, opts *Options) *Backend {
	return open(opts, func(ctx context.Context, use func(*pgx.Conn) error) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return noConnection(err)
		}
		defer conn.Release()
		return use(conn.Conn())
	})
}

// NewDB is New for a pool of database/sql whose driver is that of pgx, package
// github.com/jackc/pgx/v5/stdlib. With another driver every Lock fails.
func NewDB(db *sql.DB, opts *Options) *Backend {
	return open(opts, func(ctx context.Context, use func(*pgx.Conn) error) error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return noConnection(err)
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
	})
}

func open(opts *Options, lend source) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	usual := DefaultTable
	if opts.Layout == ShedLock {
		usual = shedlock.DefaultTable
	}
	path := strings.Split(cmp.Or(opts.Table, usual), ".")
	t := &table{
		lend: lend, log: log, layout: opts.Layout, listen: opts.Listen,
		name: pgx.Identifier(path).Sanitize(), channel: path[len(path)-1],
	}
	t.channel = t.channel[:min(len(t.channel), longestChannel)]
	if opts.Layout == ShedLock {
		return &Backend{engine: rows.New(newShedTable(t), shedlock.Limits("postgresql")), table: t}
	}
	t.statements = t.write()
	return &Backend{
		engine: rows.New(t, rows.Limits{Name: "postgresql", Listens: opts.Listen != nil}),
		table:  t,
	}
}

// Schema returns the statement that makes the table.
func (b *Backend) Schema() string { return b.table.create() }

// CreateTable makes the table if it is not there. The user needs the right to create in
// its schema; for locks SELECT, INSERT and UPDATE on the table are enough.
func (b *Backend) CreateTable(ctx context.Context) error {
	err := b.table.lend(ctx, func(conn *pgx.Conn) error {
		// Two that create at the same time may collide: the table is there then.
		for range 3 {
			_, err := conn.Exec(ctx, b.table.create(), pgx.QueryExecModeExec)
			if code := codeOf(err); code != "23505" && code != "42P07" && code != "42710" {
				return classify(err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pghold: create table %s: %w", b.table.name, err)
	}
	if b.table.layout == ShedLock {
		return shedTable{b.table}.Check(ctx)
	}
	return b.table.Check(ctx)
}

// LockTx takes the lock name for the rest of the transaction tx: until its commit or its
// rollback no other LockTx or LockSQLTx of name succeeds, in any process. It waits for
// as long as ctx allows; a context that ends while it waits closes the connection, as
// pgx does, and so ends the transaction.
//
// It needs no lease and no token: if the connection is lost, so is the transaction. It
// protects what is read and written in tx after it. At the isolation levels repeatable
// read and serializable it should be the first statement; where it waited for another
// transaction there, it fails with SQLSTATE 40001, as an update would, and the
// transaction is to be begun again.
//
// It does not exclude holders of name by a lease: a name is locked in one way or in
// the other.
func (b *Backend) LockTx(ctx context.Context, tx pgx.Tx, name string) error {
	return b.lockTx(ctx, name, func(statement string, args ...any) error {
		_, err := tx.Exec(ctx, statement, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

// LockSQLTx is LockTx for a transaction of database/sql.
func (b *Backend) LockSQLTx(ctx context.Context, tx *sql.Tx, name string) error {
	return b.lockTx(ctx, name, func(statement string, args ...any) error {
		_, err := tx.ExecContext(ctx, statement, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

func (b *Backend) lockTx(ctx context.Context, name string, exec func(statement string, args ...any) error) error {
	if b.table.layout == ShedLock {
		return noTx()
	}
	if most := b.Info().MaxName; name == "" || len(name) > most {
		return fmt.Errorf("pghold: a name has 1 to %d bytes, this one %d", most, len(name))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := exec(b.table.statements.lockTx, rows.TxName(name))
	if codeOf(err) == undefinedTable {
		return b.table.absent()
	}
	if err != nil {
		return fmt.Errorf("pghold: lock %q for a transaction: %w", name, err)
	}
	return nil
}

// codeOf returns the SQLSTATE of an error of the server, else "".
func codeOf(err error) string {
	if e := serverError(err); e != nil {
		return e.Code
	}
	return ""
}
