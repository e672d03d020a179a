package pghold

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

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
	ShedLock
)

// shedTable is a shedlock.Database.
type shedTable struct{ *table }

// newShedTable returns the Table over t.
func newShedTable(t *table) *shedlock.Table {
	return shedlock.New(shedTable{t}, shedlock.Dialect{
		Table:  t.name,
		Now:    "timezone('utc', clock_timestamp())",
		Later:  "{from} + ? * interval '1 microsecond'",
		Micros: "(extract(epoch FROM " + finite("{to}") + " - " + finite("{from}") + ") * 1000000)::bigint",
		Bytes:  `{column} COLLATE "C"`, Insert: "INSERT {row} ON CONFLICT (name) DO NOTHING", Ordinal: true,
	})
}

// finite returns a time that can be subtracted from another: a row made by hand may have
// infinity.
func finite(time string) string {
	return "greatest(least(" + time + ", timestamp '9999-12-31'), timestamp '0001-01-01')"
}

// createShedLock returns the statement that the documentation of ShedLock has.
func (t *table) createShedLock() string {
	return `CREATE TABLE IF NOT EXISTS ` + t.name + ` (
	name VARCHAR(64) NOT NULL,
	lock_until TIMESTAMP NOT NULL,
	locked_at TIMESTAMP NOT NULL,
	locked_by VARCHAR(255) NOT NULL,
	PRIMARY KEY (name)
)`
}

// shedColumnsStatement: $1 table.
const shedColumnsStatement = `SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(c.collisdeterministic, true),
	a.attnotnull, a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = ''
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`

// Check compares the columns. Times without a zone are in UTC whatever the session's zone
// is; those with one are not, as ShedLock writes them. With less than milliseconds a lease
// would end too early.
func (t shedTable) Check(ctx context.Context) error {
	want := map[string]*regexp.Regexp{}
	for column, is := range map[string]string{
		"name": `character varying.*|text`, "locked_by": `character varying(\((25[5-9]|2[6-9]\d|[3-9]\d\d|\d{4,})\))?|text`,
		"lock_until": `timestamp(\([3-6]\))? without time zone`, "locked_at": `timestamp(\([3-6]\))? without time zone`,
	} {
		want[column] = regexp.MustCompile(`^(` + is + `)$`)
	}
	var column, is string
	var sound, set, needed bool
	var wrong []string
	seen := 0
	err := t.query(ctx, shedColumnsStatement, []any{t.name}, []any{&column, &is, &sound, &set, &needed}, func() error {
		seen++
		if need := want[column]; need != nil && (!need.MatchString(is) || !sound || !set) || need == nil && needed {
			wrong = append(wrong, column+" "+is)
		}
		delete(want, column)
		return nil
	})
	for column := range want {
		wrong = append(wrong, column)
	}
	slices.Sort(wrong)
	switch {
	case err != nil:
		return err
	case seen == 0:
		return t.absent()
	case len(wrong) > 0:
		return fmt.Errorf("pghold: table %s is not one of ShedLock, see %s; it is made with:\n%s;\n%w, %w",
			t.name, strings.Join(wrong, ", "), t.create(), driver.ErrRefused, driver.ErrNotExecuted)
	}
	return nil
}

// Exec runs a statement as a transaction of its own.
func (t shedTable) Exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	err = t.lend(ctx, func(conn *pgx.Conn) error {
		return send(ctx, conn, func(mode pgx.QueryExecMode) error {
			done, err := conn.Exec(ctx, statement, append([]any{mode}, args...)...)
			changed = done.RowsAffected()
			return err
		})
	})
	if codeOf(err) == undefinedTable {
		err = t.absent()
	}
	return changed, err
}

// Query runs a statement that reads.
func (t shedTable) Query(ctx context.Context, statement string, args, into []any, scan func()) error {
	return t.query(ctx, statement, args, into, func() error {
		scan()
		return nil
	})
}

// noTx says that there is no LockTx.
func noTx() error {
	return fmt.Errorf("pghold: the table of ShedLock has no locks for a transaction: %w", errors.ErrUnsupported)
}
