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

// AdvisoryLock is an advisory lock of PostgreSQL that the program holds. It is for waiting
// for programs that use such locks, and for keeping them out: migration tools above all.
// Its methods may be called from several goroutines at once.
//
// It is a weaker lock than those of a Backend. It has no lease and no fencing token. The
// server keeps it for as long as it considers the connection alive: it is lost at once when
// the server or somebody else ends that, and after a failover no server knows of it. The
// program learns of a loss at once where the connection reports it, and within ten seconds
// where the connection is silent; until then two programs may use the
// lock. A server that hears nothing any more of a program keeps its lock for about 25
// seconds, or until TCP gives up where it cannot be asked to notice that sooner.
type AdvisoryLock struct{ hold *advisory.Hold }

// LockAdvisory waits for the advisory lock id of a database. The ids that migration tools
// use are those of GooseID, MigrateID, MigrateURLID, FlywayID and RailsID.
//
// It opens a connection of its own with config, and keeps it until Unlock, so it takes
// none out of a pool that the holder needs. With a pool, pool.Config().ConnConfig is
// right, unless the pool has a BeforeConnect, which it does not have. The connection has to lead to the primary server itself, and to the database of
// the other program: a standby, and each database of a server, has advisory locks of its
// own. A pooler such as PgBouncer is refused with errors.ErrUnsupported, because it may
// give one lock to two clients.
//
// ctx bounds the wait. If it ends, nothing stays held, unless the server cannot be reached:
// it may then go on to wait for ten seconds, and keep what it grants as it keeps that of a
// holder. Waiters are in the queue of
// the server, and are woken by it; the place in the queue is renewed twice a second. So a
// holder can run CREATE INDEX CONCURRENTLY meanwhile, which waits for older transactions;
// and the server does not notice that two programs wait for each other: who takes several
// locks takes them in the same order everywhere.
func LockAdvisory(ctx context.Context, config *pgx.ConnConfig, id int64) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, config, id, (*session).wait)
}

// TryAdvisory is LockAdvisory that does not wait: where the lock is held by another, the
// error is holdfast.ErrBusy.
func TryAdvisory(ctx context.Context, config *pgx.ConnConfig, id int64) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, config, id, (*session).try)
}

// Err returns nil while the lock is held as far as is known, then forever a
// *holdfast.LostError, which is holdfast.ErrLost, or holdfast.ErrUnlocked. It asks no
// server.
func (l *AdvisoryLock) Err() error {
	if l == nil {
		return holdfast.ErrUnlocked
	}
	return l.hold.Err()
}

// Context returns a context that is ctx for as long as the lock is held. It ends with ctx,
// when the loss of the lock is noticed, and when the lock is unlocked; context.Cause then
// returns ctx's cause, or what Err returns.
func (l *AdvisoryLock) Context(ctx context.Context) context.Context { return l.hold.Context(ctx) }

// Unlock releases the lock and closes its connection. It returns holdfast.ErrLost if the
// lock was lost before, or if the server does not confirm the release, and
// holdfast.ErrUnlocked if it was unlocked before. It takes twelve seconds at most. Calling it
// is harmless in every case, also on a nil AdvisoryLock.
func (l *AdvisoryLock) Unlock() error {
	if l == nil {
		return holdfast.ErrUnlocked
	}
	return l.hold.Unlock()
}

// GooseID is the id that the session locker of goose uses from version 3.26 on, unless
// lock.WithLockID gives it another. Older versions use 5887940537704921958.
const GooseID int64 = 4097083626

// MigrateID returns the id that golang-migrate uses where a program gives it a connection
// (WithInstance). schema and table are those of its table: "public" and
// "schema_migrations", by default.
//
// One that was given a URL uses that of MigrateURLID instead. The two do not keep each
// other out. Who wants to keep out both takes both, MigrateID first.
func MigrateID(schema, table, database string) int64 {
	return int64(advisory.Migrate(schema, table, database))
}

// MigrateURLID is MigrateID for golang-migrate where it is given a URL: its command line,
// and migrate.New.
func MigrateURLID(schema, table, database string) int64 {
	return MigrateID(schema, table, "/"+database)
}

// FlywayID returns the id that Flyway uses. schema and table are those of its table:
// "public" and "flyway_schema_history", by default.
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
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err == nil {
		s := &session{conn: conn, id: id}
		if err = s.prepare(ctx); err == nil {
			err = take(s, ctx)
		}
		if err == nil && ctx.Err() == nil {
			return &AdvisoryLock{advisory.Start(strconv.FormatInt(id, 10), s)}, nil
		}
		if err == nil { // it was granted at the last moment
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), advisory.CheckLimit)
			_ = s.Release(release) // the end of the connection releases it, too
			cancel()
		}
		s.Close()
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = ctx.Err()
	}
	return nil, fmt.Errorf("pghold: advisory lock %d: %w", id, err)
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
	hangUp(context.Background(), s.conn)
	limit := time.NewTimer(advisory.CloseLimit)
	defer limit.Stop()
	select {
	case <-s.conn.PgConn().CleanupDone():
	case <-limit.C:
	}
}
