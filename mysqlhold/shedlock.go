package mysqlhold

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/rows"
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
	//
	// In the table of ShedLock's documentation, the column "name" treats some names as equal,
	// such as Job and job. If one of these names has a row, programs can lock this name, and
	// the Backend refuses the others. The table that CreateTable makes does not have this
	// problem.
	//
	// ShedLock's times have the type TIMESTAMP, which depends on the time zone of the
	// session. All sessions need the same time zone. So Holdfast refuses a session whose
	// zone differs from that of the server. It cannot check the zone of Java's sessions.
	ShedLock
)

// shedTable is a shedlock.Database, with the Exec and the Query of table.
type shedTable struct{ *table }

// newShedTable returns a shedlock.Table for the table t.
func newShedTable(t *table) *shedlock.Table { return shedlock.New(shedTable{t}, t.shedDialect()) }

// shedDialect returns the expressions of MariaDB and MySQL. The folder testdata/shedlock has the
// statements that they make.
func (t *table) shedDialect() shedlock.Dialect {
	return shedlock.Dialect{
		Table:    t.name,
		Unlocked: unlocked(t.name),
		Now:      "UTC_TIMESTAMP(3)",
		Later:    "{from} + INTERVAL ? MICROSECOND",
		Micros:   "TIMESTAMPDIFF(MICROSECOND, {from}, {to})",
		// The bytes of the text as a client reads them, for every charset of the column. Bytes
		// that are not text stay unchanged.
		Bytes:  "COALESCE(CAST(CONVERT({column} USING utf8mb4) AS BINARY), CAST({column} AS BINARY))",
		Insert: "INSERT IGNORE {row}",
	}
}

// createShedLock returns the statement that the documentation of ShedLock has, with one
// difference: the column `name` of this table distinguishes all names.
func (t *table) createShedLock() string {
	return `CREATE TABLE IF NOT EXISTS ` + t.name + ` (
	name VARBINARY(64) NOT NULL,
	lock_until TIMESTAMP(3) NOT NULL,
	locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
	locked_by VARCHAR(255) NOT NULL,
	PRIMARY KEY (name)
) ENGINE=InnoDB`
}

const shedColumnsStatement = `SELECT LOWER(c.column_name), LOWER(c.column_type),
	c.is_nullable = 'NO' AND c.column_default IS NULL AND c.extra NOT LIKE '%auto_increment%' AND COALESCE(c.generation_expression, '') = '',
	EXISTS (SELECT 1 FROM information_schema.statistics AS i WHERE i.table_schema = c.table_schema AND i.table_name = c.table_name
		AND i.non_unique = 0 GROUP BY i.index_name HAVING COUNT(*) = 1 AND MAX(i.column_name) = c.column_name AND MAX(i.sub_part) IS NULL),
	COALESCE(t.engine, ''), @@SESSION.autocommit, @@SESSION.time_zone = @@GLOBAL.time_zone
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ?` + allRows

// incorrectTime is the number of the error for a time that does not exist in the time zone of
// the session.
const incorrectTime = 1292

const zoneStatement = `SELECT IF(@@SESSION.time_zone = 'SYSTEM', @@system_time_zone, @@SESSION.time_zone)` + allRows

// Exec does what table.Exec does. If the server does not accept the present time, the error names
// the time zone.
func (t shedTable) Exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	changed, err = t.table.Exec(ctx, statement, args)
	if numberOf(answerOf(err)) != incorrectTime {
		return changed, err
	}
	zone := "unknown"
	_ = t.Query(ctx, zoneStatement, nil, []any{&zone}, func() {})
	return changed, fmt.Errorf("mysqlhold: the time zone of the server (%s) does not have this hour, because summer time begins: until it is over, table %s keeps no locks; "+
		"with the time zone UTC, or columns of the type DATETIME(3), this does not occur: %w", zone, t.name, err)
}

// Check checks the columns, the engine of the table, and those settings of the session that
// affect commits and times. It accepts columns that may be NULL, because the tables of many
// projects have them.
func (t shedTable) Check(ctx context.Context) error {
	var found []shedlock.Column
	var c shedlock.Column
	var engine string
	var more []string
	commits := true
	sameZone := true
	zoned := false
	into := []any{&c.Name, &c.Type, &c.Needed, &c.Unique, &engine, &commits, &sameZone}
	err := t.Query(ctx, shedColumnsStatement, t.schemaArgs(), into, func() {
		found = append(found, c)
		zoned = zoned || strings.HasPrefix(c.Type, "timestamp") && strings.HasPrefix(c.Name, "lock")
	})
	if engine != "InnoDB" {
		more = append(more, "its engine is "+engine+", which has no transactions: it must be InnoDB")
	}
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return t.absent()
	case !commits:
		return rows.Unfit("mysqlhold: sessions do not commit by themselves: remove autocommit=0")
	case zoned && !sameZone:
		return rows.Unfit("mysqlhold: table %s has times of the type TIMESTAMP, and sessions have another time zone than the server: remove time_zone", t.name)
	}
	return shedlock.Unfit(t.name, found, wrongType, more, t.create())
}

// wrongType returns a text that says what is wrong with the type of a column of ShedLock, or ""
// if nothing is wrong.
func wrongType(column, is string) string {
	fits := func(types string) bool { return regexp.MustCompile(`^(` + types + `)$`).MatchString(is) }
	switch {
	case column == "name" && !fits(`var(char|binary)\(.*`):
		return "is " + is + ", and must be varchar(64) or varbinary(64)"
	case column == "locked_by" && !fits(`var(char|binary)\((25[5-9]|2[6-9]\d|[3-9]\d\d|\d{4,})\)`):
		return "is " + is + ", and must have room for 255 characters: varchar(255)"
	case column == "name", column == "locked_by", fits(`(timestamp|datetime)\([3-6]\)`):
		return ""
	}
	return "is " + is + "; change the column to timestamp(3): without milliseconds a lease ends too early"
}
