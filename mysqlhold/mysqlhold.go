// Package mysqlhold keeps locks in a table of MariaDB or MySQL: a lease row for each
// name, with a fencing token that is larger for each later grant.
//
//	db, err := sql.Open("mysql", dsn) // github.com/go-sql-driver/mysql
//	...
//	locker := mysqlhold.Locker(db, nil)
//
// The package contains no driver. With "interpolateParams=true" in the DSN each call takes
// one round trip instead of two.
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
// errors.ErrUnsupported. There are no notifications: waiters poll their rows every 1 to
// 100 ms.
//
// The statements work at any isolation level, in any SQL mode except EMPTY_STRING_IS_NULL of
// MariaDB, and in any time zone. The Backend refuses a session with that mode, or with
// autocommit=0. In a read-only session, and on a read-only server, Lock waits until it can
// write.
//
// A lease is as durable as the data: after the promotion of a replica that had not received the
// last commits, a lock may have two holders. If the lock protects rows of the same database,
// Backend.LockTx is safe even after such a promotion.
package mysqlhold

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/shedlock"
	"github.com/holdfast-go/holdfast/internal/sqlidle"
)

// DefaultTable is the name of the table if Options.Table is "".
const DefaultTable = "holdfast_locks"

// Options are the settings of New. The zero value has the defaults.
type Options struct {
	// Layout is the layout of the table. Default: LeaseRows.
	Layout Layout

	// Table is the name of the table, with its database if this is not the database of the
	// connections: "locks" or "ops.locks". Default: DefaultTable, or "shedlock" with the Layout
	// ShedLock.
	Table string
}

// engine is an alias of rows.Engine. Backend embeds it for its methods; the field is not
// exported.
type engine = rows.Engine

// Backend keeps locks in MariaDB or MySQL. It is a driver.Backend, a driver.Batcher, a
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

// New returns a Backend over db. The caller closes db after the last use of the Backend.
// New does no I/O. opts may be nil.
func New(db *sql.DB, opts *Options) *Backend {
	if opts == nil {
		opts = &Options{}
	}
	usual := DefaultTable
	if opts.Layout == ShedLock {
		usual = shedlock.DefaultTable
	}
	path := strings.Split(cmp.Or(opts.Table, usual), ".")
	t := &table{db: db, idle: sqlidle.New(db), layout: opts.Layout, path: path}
	for i, part := range path {
		path[i] = "`" + strings.ReplaceAll(part, "`", "``") + "`"
	}
	t.name = strings.Join(path, ".")
	if opts.Layout == ShedLock {
		return &Backend{engine: rows.New(newShedTable(t), shedlock.Limits("mysql")), table: t}
	}
	t.statements = t.write()
	return &Backend{engine: rows.New(t, rows.Limits{Name: "mysql", Batch: 1}), table: t}
}

// Schema returns the statement that creates the table. It does no I/O.
func (b *Backend) Schema() string { return b.table.create() }

// CreateTable creates the table if it does not exist. The user needs the permission to create
// tables. Locks only need SELECT, INSERT and UPDATE on the table.
func (b *Backend) CreateTable(ctx context.Context) error {
	if _, err := b.table.db.ExecContext(ctx, b.table.create()); err != nil {
		return fmt.Errorf("mysqlhold: create table %s: %w", b.table.name, classify(err))
	}
	if b.table.layout == ShedLock {
		return shedTable{b.table}.Check(ctx)
	}
	return b.table.Check(ctx)
}

// LockTx takes the lock with this name for the rest of the transaction tx and returns nil.
// Until the commit or rollback of tx, no other LockTx of the name succeeds, in any process.
// LockTx waits for the lock until ctx ends, but for at most innodb_lock_wait_timeout, 50 s by
// default. If ctx ends during this wait, the connection is closed, and the transaction ends.
//
// The lock needs no lease and no token: if the connection is lost, the transaction is lost,
// too. The lock protects the reads and writes that tx makes after LockTx. So call LockTx
// before the first SELECT of tx: after that SELECT, tx may read older data.
//
// LockTx does not exclude holders of the name that have a lease. Lock a name either with LockTx
// or with a lease, never with both.
func (b *Backend) LockTx(ctx context.Context, tx *sql.Tx, name string) error {
	if b.table.layout == ShedLock {
		return fmt.Errorf("mysqlhold: the table of ShedLock has no locks for a transaction: %w", errors.ErrUnsupported)
	}
	if most := b.Info().MaxName; name == "" || len(name) > most {
		return fmt.Errorf("mysqlhold: a name has 1 to %d bytes, but this name has %d", most, len(name))
	}
	_, err := tx.ExecContext(ctx, b.table.statements.lockTx, []byte(rows.TxName(name)))
	if numberOf(err) == noSuchTable {
		return b.table.absent()
	}
	if err != nil {
		return fmt.Errorf("mysqlhold: lock %q for a transaction: %w", name, err)
	}
	return nil
}
