package pghold

import (
	"context"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/shedlock"
)

// Layout is the layout of a table of locks.
type Layout int

const (
	// LeaseRows is Holdfast's own table. It has fencing tokens, and waiting processes get
	// the lock in the order of their arrival, unless a process misses its turn.
	LeaseRows Layout = iota

	// ShedLock is the table of ShedLock, a library for Java. Programs that use the library and
	// programs with this Layout exclude each other. ShedLock must use the time of the database
	// (JdbcTemplateLockProvider with "usingDbTime"), because the clocks of Java programs differ
	// from that time.
	//
	// The table has no columns for fencing tokens and for waiters. So there are no
	// tokens, waiters poll the row, and their order is random. LockTx returns
	// errors.ErrUnsupported. Names have up to 64 bytes. A name with a backslash, or with
	// bytes that are not text, is encoded, so ShedLock cannot use the same lock. A renewal
	// changes lock_until. A lease without renewals ends at lock_until, as in ShedLock.
	ShedLock
)

// shedTable is a shedlock.Database, with the Query of table.
type shedTable struct{ *table }

// newShedTable returns a shedlock.Table for the table t.
func newShedTable(t *table) *shedlock.Table { return shedlock.New(shedTable{t}, t.shedDialect()) }

// shedDialect returns the expressions of PostgreSQL. The folder testdata/shedlock has the
// statements that they make.
func (t *table) shedDialect() shedlock.Dialect {
	return shedlock.Dialect{
		Table:   t.name,
		Now:     "timezone('utc', clock_timestamp())",
		Later:   "{from} + ? * interval '1 microsecond'",
		Micros:  "(extract(epoch FROM " + finite("{to}") + " - " + finite("{from}") + ") * 1000000)::bigint",
		Bytes:   `{column} COLLATE "C"`,
		Insert:  "INSERT {row} ON CONFLICT (name) DO NOTHING",
		Ordinal: true,
	}
}

// finite returns an expression for a time that is not infinite. Only such a time can be
// subtracted from another one, but a row that a person has made may have the time infinity.
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
const shedColumnsStatement = `SELECT a.attname, replace(format_type(a.atttypid, a.atttypmod), '"', ''), NOT coalesce(c.collisdeterministic, true),
	a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '',
	EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid AND i.indimmediate
		AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`

// Check compares the columns with those that ShedLock needs. It accepts columns that may be
// NULL, because the tables of many projects have them.
func (t shedTable) Check(ctx context.Context) error {
	var c shedlock.Column
	var found []shedlock.Column
	into := []any{&c.Name, &c.Type, &c.Ambiguous, &c.Needed, &c.Unique}
	err := t.Query(ctx, shedColumnsStatement, []any{t.name}, into, func() { found = append(found, c) })
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return t.absent()
	}
	return shedlock.Unfit(t.name, found, wrongType, nil, t.create())
}

// wrongType returns a text that says what is wrong with the type of a column of ShedLock, or ""
// if nothing is wrong. ShedLock writes times in UTC, without a zone: a column with a zone would
// interpret them in the zone of the session.
func wrongType(column, is string) string {
	fits := func(types string) bool { return regexp.MustCompile(`^(` + types + `)$`).MatchString(is) }
	switch {
	case column == "name" && !fits(`character varying.*|text`):
		return "is " + is + ", and must be varchar(64) or text"
	case column == "locked_by" && !fits(`character varying(\((25[5-9]|2[6-9]\d|[3-9]\d\d|\d{4,})\))?|text`):
		return "is " + is + ", and must have room for 255 characters: varchar(255) or text"
	case column == "name", column == "locked_by", fits(`timestamp(\([3-6]\))? without time zone`):
		return ""
	case strings.HasSuffix(is, "with time zone"):
		return "is " + is + ", so that what ShedLock writes depends on the time zone of the session: timestamp does not"
	}
	return "is " + is + "; change the column to timestamp(3): without milliseconds a lease ends too early"
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
