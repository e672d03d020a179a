package mysqlhold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/shedlock"
)

// Layout is the layout of a table of locks.
type Layout int

const (
	// LeaseRows is Holdfast's own table. It has fencing tokens, and waiting processes get
	// the lock in turn.
	LeaseRows Layout = iota

	// ShedLock is the table of ShedLock, a library for Java. Its programs and those with
	// this Layout exclude each other. ShedLock must use the time of the database
	// (JdbcTemplateLockProvider with usingDbTime), because the clocks of Java programs
	// differ from it.
	//
	// The table has no columns for fencing tokens and for waiters. So there are no
	// tokens, waiters poll the row, and their order is random. LockTx returns
	// errors.ErrUnsupported. Names have up to 64 bytes. A name with a backslash, or with
	// bytes that are not text, is encoded, and so not shared. A renewal changes
	// lock_until, and a lease without renewals ends there, as in ShedLock.
	//
	// The column name in ShedLock's documentation treats some names as equal, such as Job
	// and job. The one with a row can be locked, and the others are refused. The table of
	// CreateTable does not have this problem.
	//
	// ShedLock's times have the type TIMESTAMP, which depends on the time zone of the
	// session. All sessions need the same time zone, so a session with another zone than
	// the server is refused. Holdfast cannot see the zone of Java's sessions.
	ShedLock
)

// shedTable is a shedlock.Database.
type shedTable struct{ *table }

// newShedTable returns the Table over t.
func newShedTable(t *table) *shedlock.Table {
	return shedlock.New(shedTable{t}, shedlock.Dialect{
		Table:    t.name,
		Unlocked: unlocked(t.name),
		Now:      "UTC_TIMESTAMP(3)",
		Later:    "{from} + INTERVAL ? MICROSECOND",
		Micros:   "TIMESTAMPDIFF(MICROSECOND, {from}, {to})",
		// The bytes that a client sees, whatever the charset of the column is; of a column of
		// bytes that is no text, as they are.
		Bytes: "COALESCE(CAST(CONVERT({column} USING utf8mb4) AS BINARY), CAST({column} AS BINARY))", Insert: "INSERT IGNORE {row}",
	})
}

// createShedLock returns the statement that the documentation of ShedLock has, but for a
// column name that distinguishes all names.
func (t *table) createShedLock() string {
	return `CREATE TABLE IF NOT EXISTS ` + t.name + ` (
	name VARBINARY(64) NOT NULL,
	lock_until TIMESTAMP(3) NOT NULL,
	locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
	locked_by VARCHAR(255) NOT NULL,
	PRIMARY KEY (name)
) ENGINE=InnoDB`
}

const shedColumnsStatement = `SELECT LOWER(c.column_name), LOWER(c.column_type), COALESCE(t.engine, ''), @@SESSION.autocommit,
	@@SESSION.time_zone = @@GLOBAL.time_zone, c.is_nullable = 'NO'
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ?`

// Check compares the columns and the engine, and what of the session decides about times.
// With less than milliseconds a lease would end too early.
func (t shedTable) Check(ctx context.Context) error {
	want := map[string]*regexp.Regexp{}
	for column, is := range map[string]string{
		"name": `varchar\(.*|varbinary\(.*`, "locked_by": `var(char|binary)\((25[5-9]|2[6-9]\d|[3-9]\d\d|\d{4,})\)`,
		"lock_until": `(timestamp|datetime)\([3-6]\)`, "locked_at": `(timestamp|datetime)\([3-6]\)`,
	} {
		want[column] = regexp.MustCompile(`^(` + is + `)$`)
	}
	var wrong []string
	seen, commits, sameZone, zoned, set := 0, true, true, false, true
	var column, is, engine string
	err := t.query(ctx, shedColumnsStatement, t.place(), []any{&column, &is, &engine, &commits, &sameZone, &set}, func() {
		seen++
		if need := want[column]; need != nil {
			if !need.MatchString(is) || !set {
				wrong = append(wrong, column+" "+is)
			}
			zoned = zoned || strings.HasPrefix(is, "timestamp")
		}
		delete(want, column)
		if engine != "InnoDB" && seen == 1 {
			wrong = append(wrong, "ENGINE="+engine)
		}
	})
	for column := range want {
		wrong = append(wrong, column)
	}
	slices.Sort(wrong)
	refused := fmt.Errorf("%w, %w", driver.ErrRefused, driver.ErrNotExecuted)
	switch {
	case err != nil:
		return err
	case seen == 0:
		return t.absent()
	case !commits:
		return fmt.Errorf("mysqlhold: sessions do not commit by themselves: remove autocommit=0: %w", refused)
	case len(wrong) > 0:
		return fmt.Errorf("mysqlhold: table %s is not one of ShedLock, see %s; it is made with:\n%s;\n%w", t.name, strings.Join(wrong, ", "), t.create(), refused)
	case zoned && !sameZone:
		return fmt.Errorf("mysqlhold: table %s has times of the type TIMESTAMP, and sessions have another time zone than the server: remove time_zone: %w", t.name, refused)
	}
	return nil
}

// Exec runs a statement as a transaction of its own.
func (t shedTable) Exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	err = t.with(ctx, func(conn *sql.Conn) error {
		done, err := conn.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		changed, err = done.RowsAffected()
		return err
	})
	return changed, err
}

// Query runs a statement that reads.
func (t shedTable) Query(ctx context.Context, statement string, args, into []any, scan func()) error {
	return t.query(ctx, statement, args, into, scan)
}

// noTx says that there is no LockTx.
func noTx() error {
	return fmt.Errorf("mysqlhold: the table of ShedLock has no locks for a transaction: %w", errors.ErrUnsupported)
}
