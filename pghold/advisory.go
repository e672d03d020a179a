package pghold

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/advisory"
)

// AdvisoryLock is a held advisory lock of PostgreSQL. Some programs, such as migration
// tools, take such a lock. Use AdvisoryLock to wait until such a program has finished,
// and to exclude it while you work. Several goroutines may call its methods at once.
//
// It is weaker than a lock of a Backend. It has no lease and no fencing token. The server
// keeps it as long as the connection lives; when the connection ends, the lock is lost at
// once. A failover loses it, too. The program is notified of a loss at once if the
// connection reports it, and within ten seconds if the connection is silent. Until then a
// second program may hold the same lock. If the server cannot reach the program, it keeps
// the lock of that program for about 25 seconds. A server without TCP keep-alives keeps
// it until TCP closes the connection, which can take much longer.
type AdvisoryLock struct{ hold *advisory.Hold }

// LockAdvisory waits for the advisory lock id of a database and returns the held lock.
// GooseID, MigrateID, MigrateURLID, FlywayID and RailsID are the ids of migration tools.
//
// It opens a separate connection with config and keeps it until Unlock, so it does not
// use connections of a pool. If you have a pool, use pool.Config().ConnConfig, which does
// not include a BeforeConnect of the pool. The connection must lead to the primary server
// itself, and to the database of the other program, because a standby and each database
// of a server have separate advisory locks. On a pooler such as PgBouncer it returns
// errors.ErrUnsupported, because a pooler may grant one lock to two clients.
//
// ctx limits the wait. If it ends, LockAdvisory returns ctx's error and holds nothing. If
// the connection breaks during the wait, the server may wait for up to ten more seconds,
// and grant the lock although LockAdvisory has returned an error. It keeps the lock until
// it notices that the connection is dead. The server has a queue of waiters and wakes the
// next one. Twice a second LockAdvisory leaves this queue and joins it again at its end.
// So a holder can run CREATE INDEX CONCURRENTLY, which waits for older transactions. But
// the server does not detect deadlocks: a program that takes several locks must take them
// in the same order everywhere.
func LockAdvisory(ctx context.Context, config *pgx.ConnConfig, id int64) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, config, id, (*session).wait)
}

// TryAdvisory is LockAdvisory without waiting. If another client holds the lock, it
// returns holdfast.ErrBusy.
func TryAdvisory(ctx context.Context, config *pgx.ConnConfig, id int64) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, config, id, (*session).try)
}

// Err returns nil while the lock is held, as far as the program knows. Afterwards it
// returns holdfast.ErrUnlocked, or a *holdfast.LostError, which is holdfast.ErrLost, and
// does not change any more. It sends no request.
func (l *AdvisoryLock) Err() error {
	if l == nil {
		return holdfast.ErrUnlocked
	}
	return l.hold.Err()
}

// Context returns a context for the work under the lock. It is derived from ctx. It also
// ends when the lock is unlocked, and when its loss is noticed; context.Cause then
// returns the error of Err.
func (l *AdvisoryLock) Context(ctx context.Context) context.Context { return l.hold.Context(ctx) }

// Unlock releases the lock and closes its connection. It returns nil if the server
// confirms the release, and otherwise holdfast.ErrLost, also if the lock was lost before.
// It returns holdfast.ErrUnlocked if it was unlocked before. It takes twelve seconds at
// most. A call is always safe, also on a nil AdvisoryLock.
func (l *AdvisoryLock) Unlock() error {
	if l == nil {
		return holdfast.ErrUnlocked
	}
	return l.hold.Unlock()
}

// GooseID is the id of the session locker of goose from version 3.26 on, without
// lock.WithLockID. Older versions use 5887940537704921958.
const GooseID int64 = 4097083626

// MigrateID returns the id that golang-migrate uses with a connection of the program
// (WithInstance). schema and table name its table, by default "public" and
// "schema_migrations".
//
// With a URL, golang-migrate uses MigrateURLID instead. The two do not exclude each
// other. To exclude both, take both, MigrateID first.
func MigrateID(schema, table, database string) int64 {
	return int64(advisory.Migrate(schema, table, database))
}

// MigrateURLID returns the id that golang-migrate uses with a URL: on its command line,
// and with migrate.New. See MigrateID.
func MigrateURLID(schema, table, database string) int64 {
	return MigrateID(schema, table, "/"+database)
}

// FlywayID returns the id that Flyway uses. schema and table name the table of Flyway, by
// default "public" and "flyway_schema_history".
func FlywayID(schema, table string) int64 {
	const name = 0x466c79776179 // "Flyway"
	return name + int64(advisory.JavaHash(pgx.Identifier{schema, table}.Sanitize()))
}

// RailsID returns the id that the migrations of Ruby on Rails use.
func RailsID(database string) int64 { return advisory.Rails(database) }

// advisoryIdle is after how long without a message a session is asked whether it lives.
const advisoryIdle = 5 * time.Second

// session is an advisory.Session. It is the connection of one lock, or of a waiter.
type session struct {
	conn *pgx.Conn
	id   int64
}

func takeAdvisory(ctx context.Context, config *pgx.ConnConfig, id int64, take func(*session, context.Context) error) (*AdvisoryLock, error) {
	s := &session{id: id}
	hold, err := advisory.Take(ctx, strconv.FormatInt(id, 10), s, func() (err error) {
		if s.conn, err = pgx.ConnectConfig(ctx, config.Copy()); err != nil {
			return err
		}
		if err = s.prepare(ctx); err != nil {
			return err
		}
		return take(s, ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("pghold: advisory lock %d: %w", id, err)
	}
	return &AdvisoryLock{hold}, nil
}

// prepare refuses what is not the primary server itself, and takes away limits of time
// that roles and databases may have, for they would end the session or the wait.
//
// Half of deadlock_timeout is how long a wait may last before it begins again. See wait.
func (s *session) prepare(ctx context.Context) error {
	var standby bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()", pgx.QueryExecModeExec).Scan(&standby); err != nil {
		return err
	}
	if standby {
		return fmt.Errorf("the connection leads to a standby, whose advisory locks keep nobody out: %w", errors.ErrUnsupported)
	}
	if err := s.same(ctx); err != nil {
		return err
	}
	// So the server notices within half a minute that a client is gone that could not say so.
	// One that cannot do this notices it later.
	_, _ = s.conn.Exec(ctx, `SELECT set_config(name, CASE name WHEN 'tcp_keepalives_idle' THEN '10' WHEN 'tcp_keepalives_interval' THEN '5'
			WHEN 'tcp_keepalives_count' THEN '3' ELSE '25s' END, false) FROM pg_settings
		WHERE name IN ('tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', 'tcp_user_timeout')`, pgx.QueryExecModeExec)
	_, _ = s.conn.Exec(ctx, `SELECT set_config(name, '1s', false) FROM pg_settings
		WHERE name = 'client_connection_check_interval'`, pgx.QueryExecModeExec)
	_, err := s.conn.Exec(ctx, `SELECT set_config(name, '0', false) FROM pg_settings
		WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_session_timeout')
		UNION ALL SELECT set_config('lock_timeout', least(500, greatest(1, setting::bigint / 2))::text, false) FROM pg_settings
		WHERE name = 'deadlock_timeout'`, pgx.QueryExecModeExec)
	return err
}

// same makes sure that the connection leads to the server, in the session that it was made
// with.
func (s *session) same(ctx context.Context) error {
	direct, err := leadsToServer(ctx, s.conn)
	if err == nil && !direct {
		err = fmt.Errorf("the connection leads to a pooler, which may give one lock to two clients: %w", errors.ErrUnsupported)
	}
	return err
}

// wait waits in the queue of the server, in transactions that last as long as
// lock_timeout: a statement that waits has a snapshot, and a holder that runs CREATE INDEX
// CONCURRENTLY waits for the ends of all older ones. The server would take that for a
// deadlock after deadlock_timeout, and end the work of the holder.
//
// Most transactions are in one statement of PL/pgSQL, because an error that is caught there
// is not in the server's log. The statement ends after ten seconds: else a session whose
// client cannot be reached would go on to wait, and get the lock in the end.
func (s *session) wait(ctx context.Context) error {
	for {
		_, err := s.conn.Exec(ctx, fmt.Sprintf(`DO $$
BEGIN
	FOR n IN 1..20 LOOP
		BEGIN
			PERFORM pg_advisory_lock('%d'::bigint);
			PERFORM set_config('holdfast.granted', 'yes', false);
			EXIT;
		EXCEPTION WHEN lock_not_available THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END $$`, s.id), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		var granted bool
		err = s.conn.QueryRow(ctx, "SELECT coalesce(current_setting('holdfast.granted', true), '') = 'yes'", pgx.QueryExecModeExec).Scan(&granted)
		if err != nil || granted {
			return err
		}
	}
}

func (s *session) try(ctx context.Context) error {
	var granted bool
	err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", pgx.QueryExecModeExec, s.id).Scan(&granted)
	if err == nil && !granted {
		err = &holdfast.BusyError{Name: strconv.FormatInt(s.id, 10)}
	}
	return err
}

// Watch reads from the connection: a server that ends a session says so.
func (s *session) Watch(ctx context.Context) error {
	for {
		wait, cancel := context.WithTimeout(ctx, advisoryIdle)
		_, err := s.conn.WaitForNotification(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // Release sees what has become of the connection
		case err != nil && !quiet:
			return err
		}
		check, cancel := context.WithTimeout(context.WithoutCancel(ctx), advisory.CheckLimit)
		err = s.same(check)
		cancel()
		if err != nil {
			return err
		}
	}
}

// Release releases the lock, also one that was granted twice: as the time of a slice was
// over, and again.
func (s *session) Release(ctx context.Context) error {
	var held bool
	err := s.conn.QueryRow(ctx, "SELECT pg_advisory_unlock($1), pg_advisory_unlock_all()", pgx.QueryExecModeExec, s.id).Scan(&held, nil)
	if err == nil && !held {
		err = &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: "the session does not hold the lock"}
	}
	return err
}

// Close ends the connection. One that was given up in the middle of a statement sends a
// request to cancel it first, and is waited for.
func (s *session) Close() {
	if s.conn == nil {
		return
	}
	hangUp(context.Background(), s.conn)
	limit := time.NewTimer(advisory.CloseLimit)
	defer limit.Stop()
	select {
	case <-s.conn.PgConn().CleanupDone():
	case <-limit.C:
	}
}
