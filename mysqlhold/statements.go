package mysqlhold

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// statements are the statements of one table. Each is a transaction of its own. Statements that
// change several rows lock these rows in the order of the index.
//
// UTC_TIMESTAMP is the time at which the statement began. If a lease ends while a try waits for
// the row, the try is refused, and the next try finds the name free. A new lease is counted
// from UTC_TIMESTAMP, which is after the beginning of the call. So it does not end before the
// time that the caller expects. UTC_TIMESTAMP and DATETIME have no time zone; NOW and TIMESTAMP
// would depend on the time zone of the session.
type statements struct {
	try, tryTaken, enqueue, insert, readRows, renew, held, release, lockTx string
	tryFree, releaseAlone                                                  string // of a row that has no waiters, see rows.Alone
	page, force                                                            string // for operators
}

// write returns the statements for the table. Some of them still have the word {names}, which
// the function `list` replaces.
func (t *table) write() statements {
	fill := strings.NewReplacer("{unlocked}", unlocked(t.name), "{table}", t.name, "{now}", "UTC_TIMESTAMP(6)", "{turn}", fmt.Sprint(rows.Turn.Microseconds()),
		"{turns}", fmt.Sprint(rows.Turns), "{waiting}", fmt.Sprint(rows.Waiting), "{kept}", driver.KeptOwner).Replace
	try := func(unlocked, named string) string {
		return fill(strings.NewReplacer("{unlocked}", unlocked, "{named}", named, "{position}", positionExpr).Replace(tryStatement))
	}
	return statements{
		try: try("", "name = ? AND "), tryTaken: try("{unlocked}", ""), enqueue: fill(enqueueStatement), insert: fill(insertStatement), readRows: fill(readStatement),
		renew: fill(renewStatement), held: fill(heldStatement), release: fill(releaseStatement), lockTx: fill(lockTxStatement),
		tryFree: fill(tryFreeStatement), releaseAlone: fill(releaseAloneStatement),
		page: fill(pageStatement), force: fill(forceStatement),
	}
}

// unlocked returns the text of a JOIN for a statement. The JOIN finds a row of the table by its
// name, but finds nothing while another transaction has locked this row. The statement gets the
// name as its first parameter. The parameter `table` is the quoted name of the table.
//
// With LIMIT, the server first copies the row to a temporary table. Without LIMIT, MySQL merges
// the subquery into the statement, and waits for a locked row. MySQL and MariaDB also wait if
// the statement has a second condition on the column `name`.
func unlocked(table string) string {
	return "JOIN (SELECT name FROM " + table + " WHERE name = ? LIMIT 1 FOR UPDATE SKIP LOCKED) AS unlocked USING (name)"
}

// create returns the statement that makes the table. Text types would treat some different
// names as equal; VARBINARY compares bytes.
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
	// The server executes assignments from left to right, but in one SQL mode all at the same
	// time. So no assignment reads a column that was changed before it. For example, the column
	// `expires` is changed after the assignments that read it. The column `token` has the last
	// token of a grant, so that a repeated grant has the same tokens. A new token is never
	// smaller than the time in microseconds. The column `tokens` has the number of tokens of
	// the grant.
	//
	// If a name is in table.taken, its try does not wait for a locked row. A statement that
	// puts a claim into the queue does not wait either. Otherwise hundreds of clients would
	// wait in the server. If a statement has skipped a locked row, the Engine tries the claim
	// again. In the statements that skip a locked row, the name is the first parameter. In the
	// other statements the name comes after the note.
	tryStatement = `UPDATE {table} {unlocked} SET
	token = LAST_INSERT_ID(IF(expires <= {now}, GREATEST(token + ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) + ? - 1), token)),
	tokens = IF(expires <= {now}, ?, tokens),
	since = IF(expires <= {now}, {now}, since),
	waiters = IF(expires <= {now} AND {position} + 1 < ` + queueLength + `, SUBSTRING_INDEX(waiters, ',', {position} + 1 - ` + queueLength + `), IF(expires <= {now}, '', waiters)),
	expires = IF(expires <= {now}, {now} + INTERVAL ? MICROSECOND, GREATEST(expires, {now} + INTERVAL ? MICROSECOND)),
	owner = ?, note = ?
WHERE {named}(expires + INTERVAL LEAST({position}, {turns}) * {turn} MICROSECOND <= {now} OR owner = ? AND expires > {now})`

	// A try of a name that is free and has no waiters. It has the assignments of tryStatement for
	// this case.
	tryFreeStatement = `UPDATE {table} SET token = LAST_INSERT_ID(GREATEST(token + ?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) + ? - 1)),
	tokens = ?, since = {now}, expires = {now} + INTERVAL ? MICROSECOND, owner = ?, note = ?
WHERE name = ? AND expires <= {now} AND waiters = ''`

	// positionExpr is how many waiters are before the claim. queueLength is the number of all
	// waiters.
	positionExpr = `IF(FIND_IN_SET(?, waiters) > 0, FIND_IN_SET(?, waiters) - 1, ` + queueLength + `)`
	queueLength  = `IF(waiters = '', 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ',', '')))`

	enqueueStatement = `UPDATE {table} {unlocked} SET waiters = IF(waiters = '', ?, CONCAT(waiters, ',', ?))
WHERE FIND_IN_SET(?, waiters) = 0 AND ` + queueLength + ` < {waiting}`

	insertStatement = `INSERT IGNORE INTO {table} (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 0, {now}, '1970-01-01', '')`

	// columns are the columns that a statement returns, in the order of rows.Columns.
	columns = `name, COALESCE(owner, ''), note, token, tokens, TIMESTAMPDIFF(MICROSECOND, since, {now}),
	TIMESTAMPDIFF(MICROSECOND, {now}, expires), COALESCE(forced_owner, ''), COALESCE(forced_reason, ''), waiters`

	readStatement = `SELECT ` + columns + ` FROM {table} WHERE name IN ({names})` + allRows

	// The statement need not pair names and owners, because an owner has a claim on one name
	// only.
	renewStatement = `UPDATE {table} SET expires = GREATEST(expires, {now} + INTERVAL ? MICROSECOND)
WHERE name IN ({names}) AND owner IN ({names}) AND expires > {now}`

	heldStatement = `SELECT name, owner FROM {table} WHERE name IN ({names}) AND owner IN ({names}) AND expires > {now}` + allRows

	// A released name is reserved for its waiters, one after the other. A name without waiters
	// is free for every claim.
	releaseStatement = `UPDATE {table} SET
	expires = IF(owner <=> ? AND expires > {now}, IF(? <= 0 AND waiters = '', '1970-01-01', {now} + INTERVAL ? MICROSECOND), expires),
	owner = IF(owner <=> ?, IF(? > 0, CONCAT(owner, '{kept}'), NULL), owner),
	waiters = TRIM(BOTH ',' FROM REPLACE(CONCAT(',', waiters, ','), CONCAT(',', ?, ','), ','))
WHERE name = ? AND (owner = ? AND expires > {now} OR FIND_IN_SET(?, waiters) > 0)`

	// A release of a name that has no waiters.
	releaseAloneStatement = `UPDATE {table} SET expires = '1970-01-01', owner = NULL
WHERE name = ? AND owner = ? AND expires > {now} AND waiters = ''`

	lockTxStatement = `INSERT INTO {table} (name, owner, note, token, since, expires, waiters) VALUES (?, NULL, '', 1, {now}, '1970-01-01', '')
ON DUPLICATE KEY UPDATE token = token + 1, since = {now}`

	columnsStatement = `SELECT LOWER(c.column_name), LOWER(c.column_type), COALESCE(t.engine, ''), @@SESSION.autocommit, '' IS NULL
FROM information_schema.columns AS c JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ?` + allRows

	// allRows overrides sql_select_limit, which may be 1.
	allRows = ` LIMIT 18446744073709551615`
)
