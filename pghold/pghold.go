// Package pghold keeps locks in a table of PostgreSQL: a lease row for each name, with a
// fencing token that is larger for each later grant.
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	locker := pghold.Locker(pool, nil)
//
// Backend.CreateTable or an administrator creates the table. Until the table exists, every Lock
// fails with an error that contains the statement which creates the table. Names are
// case-sensitive and have up to 512 bytes. The row of a name stays after the lock was released,
// because the row keeps the token. Rows of free names may be deleted, because a new token is
// never below the server's clock in microseconds.
//
// If Options.Layout is ShedLock, the table is that of ShedLock, a library for Java. In that
// case a lock also excludes programs that use ShedLock. The documentation of the constant
// ShedLock lists what this layout lacks.
//
// Locks are exclusive. Read-write locks, semaphores, fair locks and latches return
// errors.ErrUnsupported.
//
// Every statement is its own transaction. The statements work at any isolation level, and
// behind a pooler in transaction mode. The Backend sends them as prepared statements if the
// pool prepares statements, as pgx does by default, and if the connections of the pool lead to
// the server itself. Waiters poll their rows every 1 to 100 ms; with Options.Listen they get
// notifications (NOTIFY) instead.
//
// A lease is as durable as the data. After the promotion of a standby that had not received the
// last commits, a lock may have two holders. With synchronous_commit and a synchronous standby
// this cannot happen. If the lock protects rows of the same database, Backend.LockTx is safe
// even after such a promotion.
package pghold

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/shedlock"
)

// DefaultTable is the name of the table if Options.Table is "".
const DefaultTable = "holdfast_locks"

// longestChannel is the length in bytes of the longest name that a channel or a table can have.
// The server shortens longer names.
const longestChannel = 63

// Options are the settings of New and NewDB. The zero value has the defaults.
type Options struct {
	// Layout is the layout of the table. Default: LeaseRows.
	Layout Layout

	// Table is the name of the table, with its schema if the schema is not in the search
	// path: "locks" or "ops.locks". Default: DefaultTable, or "shedlock" with the Layout
	// ShedLock.
	Table string

	// Listen is the configuration of a connection to the server itself, not to a pooler, for
	// notifications of releases (NOTIFY). The Backend has this connection while a goroutine
	// waits, and for two seconds after that. If the pool leads to the server, use
	// pool.Config().ConnConfig, which does not include a BeforeConnect of the pool. If the
	// connection fails, or leads to a pooler, waiters poll. Programs with and without Listen
	// may share a table: programs without it notify, too. The Layout ShedLock has no
	// notifications, and ignores Listen. Default: nil, waiters poll.
	Listen *pgx.ConnConfig

	// Logger gets a warning if Listen leads to a pooler. Default: no log.
	Logger *slog.Logger
}

// engine is an alias of rows.Engine. Backend embeds it for its methods; the field is not
// exported.
type engine = rows.Engine

// Backend keeps locks in PostgreSQL. It is a driver.Backend, a driver.Batcher, a
// driver.Drainer and an admin.Source. Several goroutines may call its methods at once.
type Backend struct {
	*engine
	table *table
}

var (
	_ driver.Backend = (*Backend)(nil)
	_ driver.Batcher = (*Backend)(nil)
	_ driver.Drainer = (*Backend)(nil)
)

// New returns a Backend over pool. The caller closes pool after the last use of the
// Backend. New does no I/O. opts may be nil.
//
// If a renewal gets no connection from pool in half of the time that it may take, because all
// connections are in use or dead, the Backend makes a connection for this renewal alone. For
// this connection the Backend uses the settings of pool, and the functions of pool such as
// BeforeConnect. A Backend has one such connection at a time.
func New(pool *pgxpool.Pool, opts *Options) *Backend {
	return open(opts, newPool(pool).lend)
}

// NewDB does what New does, for a pool of database/sql with the driver of pgx, package
// github.com/jackc/pgx/v5/stdlib. With another driver every Lock fails. Renewals of this
// Backend make no connections beside the pool.
func NewDB(db *sql.DB, opts *Options) *Backend { return open(opts, lendOf(db)) }

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
		lend:    lend,
		log:     log,
		layout:  opts.Layout,
		name:    pgx.Identifier(path).Sanitize(),
		channel: path[len(path)-1],
		listen:  opts.Listen,
	}
	t.channel = strings.ToValidUTF8(t.channel[:min(len(t.channel), longestChannel)], "") // the server, too, cuts no character in two
	if opts.Layout == ShedLock {
		return &Backend{engine: rows.New(newShedTable(t), shedlock.Limits("postgresql")), table: t}
	}
	t.statements = t.write()
	return &Backend{
		engine: rows.New(t, rows.Limits{Name: "postgresql", Listens: opts.Listen != nil}),
		table:  t,
	}
}

// Schema returns the statement that creates the table. It does no I/O.
func (b *Backend) Schema() string { return b.table.create() }

// CreateTable creates the table if it does not exist. The user needs the permission to create
// tables in the schema of the table. Locks only need SELECT, INSERT and UPDATE on the table.
func (b *Backend) CreateTable(ctx context.Context) error {
	err := b.table.lend(ctx, func(conn *pgx.Conn) error {
		// If two clients create the table at the same time, one of them may get an error. In
		// that case the table exists.
		for range 3 {
			_, err := conn.Exec(ctx, b.table.create(), pgx.QueryExecModeExec)
			switch codeOf(err) {
			case uniqueViolation, duplicateTable, duplicateObject:
				continue
			}
			return classify(err)
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

// LockTx takes the lock with this name for the rest of the transaction tx and returns nil.
// Until the commit or rollback of tx, no other LockTx or LockSQLTx of the name succeeds, in any
// process. LockTx waits for the lock until ctx ends. If ctx ends during this wait, pgx closes
// the connection, and the transaction ends.
//
// The lock needs no lease and no token: if the connection is lost, the transaction is lost,
// too. The lock protects the reads and writes that tx makes after LockTx. At the isolation
// levels repeatable read and serializable LockTx should be the first statement of tx. At these
// levels, a LockTx that waited for another transaction fails with SQLSTATE 40001, as an UPDATE
// does. Then the program must begin the transaction again.
//
// LockTx does not exclude holders of the name that have a lease. Lock a name either with LockTx
// or with a lease, never with both.
func (b *Backend) LockTx(ctx context.Context, tx pgx.Tx, name string) error {
	return b.lockTx(ctx, name, func(statement string, args ...any) error {
		_, err := tx.Exec(ctx, statement, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

// LockSQLTx does what LockTx does, for a transaction of database/sql.
func (b *Backend) LockSQLTx(ctx context.Context, tx *sql.Tx, name string) error {
	return b.lockTx(ctx, name, func(statement string, args ...any) error {
		_, err := tx.ExecContext(ctx, statement, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

func (b *Backend) lockTx(ctx context.Context, name string, exec func(statement string, args ...any) error) error {
	if b.table.layout == ShedLock {
		return fmt.Errorf("pghold: the table of ShedLock has no locks for a transaction: %w", errors.ErrUnsupported)
	}
	if most := b.Info().MaxName; name == "" || len(name) > most {
		return fmt.Errorf("pghold: a name has 1 to %d bytes, but this name has %d", most, len(name))
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
