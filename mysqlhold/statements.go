package mysqlhold

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// statements are those of one table. Each is a transaction of its own; those that change
// rows take them in the order of the index.
//
// UTC_TIMESTAMP is that of the beginning of the statement: a lease that ended while it
// waited for the row has ended at the next try, and one that it gives is still longer
// than from the beginning of the call. It and DATETIME know no time zone; NOW and
// TIMESTAMP would depend on that of the session.
type statements struct {
	try, tryTaken, enqueue, insert, look, renew, held, release, lockTx string
	page, force                                                        string // for people
}

// write returns the statements for the table. {names} stands for a list of parameters.
func (t *table) write() statements {
	fill := strings.NewReplacer("{unlocked}", unlocked(t.name), "{table}", t.name, "{now}", "UTC_TIMESTAMP(6)", "{turn}", fmt.Sprint(rows.Turn.Microseconds()),
		"{turns}", fmt.Sprint(rows.Turns), "{waiting}", fmt.Sprint(rows.Waiting), "{kept}", driver.KeptOwner).Replace
	try := func(unlocked, named string) string {
		return fill(strings.NewReplacer("{unlocked}", unlocked, "{named}", named, "{place}", place).Replace(tryStatement))
	}
	return statements{
		try: try("", "name = ? AND "), tryTaken: try("{unlocked}", ""), enqueue: fill(enqueueStatement), insert: fill(insertStatement), look: fill(lookStatement),
		renew: fill(renewStatement), held: fill(heldStatement), release: fill(releaseStatement), lockTx: fill(lockTxStatement),
		page: fill(pageStatement), force: fill(forceStatement),
	}
}

// unlocked joins a table, quoted, with the row of a name, the first parameter, unless
// another transaction has locked that row. With LIMIT the server makes a table of it first;
// else MySQL reads both as one, and waits. So do both where the rest of the statement names
// the row, too.
func unlocked(table string) string {
	return "JOIN (SELECT name FROM " + table + " WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS unlocked USING (name)"
}

// create returns the statement that makes the table. Text types would take some names
// for the same that are not: VARBINARY compares bytes.
func (t *table) create() string {
	if t.layout == ShedLock {
		return t.createShedLock()
	}
	return `CREATE TABLE IF NOT EXISTS ` + t.name + ` (
	name VARBINARY(2060) NOT NULL PRIMARY KEY,
	owner VARBINARY(100),
	note VARBINARY(1000) NOT NULL,
	token BIGINT NOT NULL,
	tokens INT NOT NULL DEFAULT 1,
	since DATETIME(6) NOT NULL,
	expires DATETIME(6) NOT NULL,
	waiters BLOB NOT NULL,
	forced_owner VARBINARY(100),
	forced_reason VARBINARY(1000)
) ENGINE=InnoDB`
}

const (
	// Assignments take place from left to right, in one SQL mode all at once: so expires,
	// which decides, is changed after those that read it, and nothing reads what is
	// changed before. The column token has the last token of a grant, so that a repeated
	// one has the same, and tokens how many there are; it is not below the time.
	//
	// Neither a try of a name that was just seen taken nor a place in the queue waits for a
	// row: hundreds of clients that want one would stand in the server. What is skipped is
	// tried again. The name is the first parameter then, else it comes after the note.
	tryStatement = `UPDATE {table} {unlocked} SET
	token = LAST_INSERT_ID(IF(expires <= {now}, GREATEST(token + ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) + ? - 1), token)),
	tokens = IF(expires <= {now}, ?, tokens),
	since = IF(expires <= {now}, {now}, since),
	waiters = IF(expires <= {now} AND {place} + 1 < ` + queued + `, SUBSTRING_INDEX(waiters, ',', {place} + 1 - ` + queued + `), IF(expires <= {now}, '', waiters)),
	expires = IF(expires <= {now}, {now} + INTERVAL ? MICROSECOND, GREATEST(expires, {now} + INTERVAL ? MICROSECOND)),
	owner = ?, note = ?
WHERE {named}(expires + INTERVAL LEAST({place}, {turns}) * {turn} MICROSECOND <= {now} OR owner = ? AND expires > {now})`

	// place is how many wait before the claim, queued how many wait.
	place  = `IF(FIND_IN_SET(?, waiters) > 0, FIND_IN_SET(?, waiters) - 1, ` + queued + `)`
	queued = `IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))`

	enqueueStatement = `UPDATE {table} {unlocked} SET waiters = IF(waiters = '', ?, CONCAT(waiters, ',', ?))
WHERE FIND_IN_SET(?, waiters) = 0 AND ` + queued + ` < {waiting}`

	insertStatement = `INSERT IGNORE INTO {table} (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 0, {now}, '1970-01-01', '')`

	// columns are what is read of a row: at the end for how long it is held, and will be, and
	// what was forced.
	columns = `name, COALESCE(owner, ''), note, token, tokens, TIMESTAMPDIFF(MICROSECOND, since, {now}),
	TIMESTAMPDIFF(MICROSECOND, {now}, expires), COALESCE(forced_owner, ''), COALESCE(forced_reason, ''), waiters`

	lookStatement = `SELECT ` + columns + ` FROM {table} WHERE name IN ({names})` + allRows

	// An owner is of one claim, and so of one name.
	renewStatement = `UPDATE {table} SET expires = GREATEST(expires, {now} + INTERVAL ? MICROSECOND)
WHERE name IN ({names}) AND owner IN ({names}) AND expires > {now}`

	heldStatement = `SELECT name, owner FROM {table} WHERE name IN ({names}) AND owner IN ({names}) AND expires > {now}` + allRows

	// A name for which others wait is free for them from now on, one after the other; with
	// nobody it is free at once.
	releaseStatement = `UPDATE {table} SET
	expires = IF(owner <=> ? AND expires > {now}, IF(? <= 0 AND waiters = '', '1970-01-01', {now} + INTERVAL ? MICROSECOND), expires),
	owner = IF(owner <=> ?, IF(? > 0, CONCAT(owner, '{kept}'), NULL), owner),
	waiters = TRIM(BOTH ',' FROM REPLACE(CONCAT(',', waiters, ','), CONCAT(',', ?, ','), ','))
WHERE name = ? AND (owner = ? AND expires > {now} OR FIND_IN_SET(?, waiters) > 0)`

	lockTxStatement = `INSERT INTO {table} (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 1, {now}, '1970-01-01', '')
ON DUPLICATE KEY UPDATE token = token + 1, since = {now}`

	columnsStatement = `SELECT LOWER(c.column_name), LOWER(c.column_type), COALESCE(t.engine, ''), @@SESSION.autocommit, '' IS NULL
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ?` + allRows

	// allRows takes the place of sql_select_limit, which may be 1.
	allRows = ` LIMIT 18446744073709551615`
)
