package mysqlhold

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/advisory"
)

// AdvisoryLock is a held lock of GET_LOCK. Some programs, such as migration tools, take
// such a lock. Use AdvisoryLock to wait until such a program has finished, and to exclude
// it while you work. Several goroutines may call its methods at once.
//
// It is weaker than a lock of a Backend. It has no lease and no fencing token. The server
// keeps it as long as the connection lives; when the connection ends, the lock is lost at
// once. Other servers do not have it: it is lost in a failover, and it does not exclude
// clients of other servers in a cluster. The program is notified of a loss within a
// second, and within six seconds if the connection is silent. Until then a second program
// may hold the same lock. If a program becomes unreachable, the server keeps its lock
// until TCP closes the connection, or for wait_timeout, eight hours by default.
type AdvisoryLock struct{ hold *advisory.Hold }

// LockAdvisory waits for GET_LOCK of name and returns the held lock. MigrateName,
// FlywayName and RailsName return the names of migration tools. A name has 1 to 64
// characters, and is valid for all databases of a server. MySQL ignores case in names,
// MariaDB does not.
//
// It opens a separate connection and keeps it until Unlock, so it does not use
// connections of a pool. The function mysql.NewConnector of
// github.com/go-sql-driver/mysql makes a connector from a mysql.Config.
//
// ctx limits the wait. If it ends, LockAdvisory returns ctx's error, up to a second
// later, or six seconds if the server is silent, and holds nothing. If the connection
// breaks during the wait, the server may grant the lock although LockAdvisory has
// returned an error. It keeps the lock until it notices that the connection is dead. The
// server has a queue of waiters and wakes the next one. Every second LockAdvisory ends
// its GET_LOCK call and starts a new one, so it loses its place in the queue.
func LockAdvisory(ctx context.Context, connector sqldriver.Connector, name string) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, connector, name, func(s *session) error {
		for {
			err := s.get(ctx, slice)
			if !errors.Is(err, holdfast.ErrBusy) || ctx.Err() != nil {
				return err
			}
		}
	})
}

// TryAdvisory is LockAdvisory without waiting. If another client holds the lock, it
// returns holdfast.ErrBusy.
func TryAdvisory(ctx context.Context, connector sqldriver.Connector, name string) (*AdvisoryLock, error) {
	return takeAdvisory(ctx, connector, name, func(s *session) error { return s.get(ctx, 0) })
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
// It returns holdfast.ErrUnlocked if it was unlocked before. It takes ten seconds at
// most. A call is always safe, also on a nil AdvisoryLock.
func (l *AdvisoryLock) Unlock() error {
	if l == nil {
		return holdfast.ErrUnlocked
	}
	return l.hold.Unlock()
}

// MigrateName returns the name that golang-migrate uses. The default table of
// golang-migrate is "schema_migrations".
func MigrateName(database, table string) string {
	return strconv.FormatUint(uint64(advisory.Migrate(database+":"+table)), 10)
}

// FlywayName returns the name that Flyway uses. The default table of Flyway is
// "flyway_schema_history".
func FlywayName(database, table string) string {
	quoted := "`" + strings.ReplaceAll(database, "`", "``") + "`.`" + strings.ReplaceAll(table, "`", "``") + "`"
	return "Flyway-" + strconv.FormatInt(int64(advisory.JavaHash(quoted)), 10)
}

// RailsName returns the name that the migrations of Ruby on Rails use.
func RailsName(database string) string {
	return strconv.FormatInt(advisory.Rails(database), 10)
}

const (
	// slice is how long one call of GET_LOCK waits, in seconds, of which MySQL takes whole
	// ones. A call that the client gives up would stay in the queue.
	slice = 1

	// advisoryCheck is how long after an answer the next question follows.
	advisoryCheck = time.Second
)

// session is an advisory.Session. It is the connection of one lock, or of a waiter.
type session struct {
	db   *sql.DB // has no other connection
	conn *sql.Conn
	id   int64 // of the connection, at the server
	name string
}

func takeAdvisory(ctx context.Context, connector sqldriver.Connector, name string, take func(*session) error) (*AdvisoryLock, error) {
	s := &session{db: sql.OpenDB(connector), name: name}
	hold, err := advisory.Take(ctx, name, s, func() (err error) {
		if s.conn, err = s.db.Conn(ctx); err != nil {
			return err
		}
		return take(s)
	})
	if err != nil {
		return nil, fmt.Errorf("mysqlhold: advisory lock %q: %w", name, err)
	}
	return &AdvisoryLock{hold}, nil
}

// get waits so many seconds for the lock. It does not end with ctx.
func (s *session) get(ctx context.Context, seconds int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(seconds)*time.Second+advisory.CheckLimit)
	defer cancel()
	var granted sql.NullInt64
	if err := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?), CONNECTION_ID()", s.name, seconds).Scan(&granted, &s.id); err != nil {
		return err
	}
	switch {
	case !granted.Valid:
		return errors.New("the server ended the wait")
	case granted.Int64 != 1:
		return &holdfast.BusyError{Name: s.name}
	}
	return nil
}

// Watch asks whether the session still holds the lock.
func (s *session) Watch(ctx context.Context) error {
	next := time.NewTimer(advisoryCheck)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		if err := s.check(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		next.Reset(advisoryCheck)
	}
}

func (s *session) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, advisory.CheckLimit)
	defer cancel()
	var holder sql.NullInt64
	if err := s.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", s.name).Scan(&holder); err != nil {
		return err
	}
	if holder.Int64 != s.id {
		return gone()
	}
	return nil
}

// Release releases the lock.
func (s *session) Release(ctx context.Context) error {
	var released sql.NullInt64
	err := s.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", s.name).Scan(&released)
	if err == nil && released.Int64 != 1 {
		err = gone()
	}
	return err
}

func gone() error {
	return &driver.GoneError{Reason: driver.ReasonNotOwner, Detail: "the session does not hold the lock"}
}

// Close ends the connection.
func (s *session) Close() {
	if s.conn != nil {
		_ = s.conn.Close() // db closes what is left
	}
	_ = s.db.Close()
}
