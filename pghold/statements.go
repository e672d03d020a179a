package pghold

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// statements are the statements of one table. Each is a transaction of its own, and locks only
// the rows of its names, in the order of the names. So statements may wait for each other, but
// do not deadlock. There are separate statements for one name, because the server plans such a
// statement in a third of the time.
//
// The statements use clock_timestamp(), because now() is the time at which the transaction
// began, and the statement may have waited for a row since then.
type statements struct {
	try, renew, release                            string // of one name
	tryFree, releaseAlone                          string // the same, of a row that has no waiters; see rows.Alone
	tryNewest, renewNewest, releaseNewest          string // the same, of a row that has many versions
	readNewest                                     string // of several names, of which one has many versions
	tryAll, renewAll, releaseAll, readRows, lockTx string
	page, force                                    string // for operators
}

// write returns the statements for the table. The folder testdata/statements has each of them as
// it is sent. A try and its parts have names in braces for expressions that occur often.
func (t *table) write() statements {
	fill := strings.NewReplacer(
		"{table}", t.name,
		"{position}", tryPosition,
		"{taken}", tryTaken(),
		"{held}", tryHeld,
		"{queues}", tryQueues(),
	).Replace
	return statements{
		try:           fill(tryOne),
		tryFree:       fill(tryFree),
		releaseAlone:  fill(releaseAlone),
		renew:         fill(renewOne(thisRow)),
		release:       fill(releaseOne(thisRow)),
		tryNewest:     fill(tryNewest),
		renewNewest:   fill(renewOne(newestRow)),
		releaseNewest: fill(releaseOne(newestRow)),
		readNewest:    fill(readNewest),
		tryAll:        fill(tryAll),
		renewAll:      fill(renewAll),
		releaseAll:    fill(releaseAll()),
		readRows:      fill(readStatement),
		lockTx:        fill(lockTxStatement),
		page:          fill(pageStatement),
		force:         fill(forceStatement),
	}
}

// create returns the statement that makes the table. Half of each page is left free, so
// that an update stays on its page and needs no new entry in the index.
func (t *table) create() string {
	if t.layout == ShedLock {
		return t.createShedLock()
	}
	return `CREATE TABLE IF NOT EXISTS ` + t.name + ` (
	name text COLLATE "C" PRIMARY KEY,
	owner text,
	note text NOT NULL DEFAULT '',
	token bigint NOT NULL,
	tokens integer NOT NULL DEFAULT 1,
	since timestamptz NOT NULL,
	expires timestamptz NOT NULL,
	waiters text[] NOT NULL DEFAULT '{}',
	wanted boolean NOT NULL DEFAULT false,
	forced_owner text,
	forced_reason text
) WITH (fillfactor = 50)`
}

const (
	// thisRow and newestRow are the conditions of an update of the row of the name $1. newestRow
	// is for a row that has many versions.
	//
	// While a transaction is open, the server keeps each version of a row that is newer than the
	// snapshot of that transaction. A row that changes often then has thousands of versions on
	// many pages. An update with the condition name = $1 reads all of them, and so does ON
	// CONFLICT. With the condition newestRow, the server reads the index from its end, where the
	// newest versions usually are, and stops at the first version that it sees. The subqueries
	// have a range of names, because for name = $1 the server ignores the order.
	//
	// The array has the version that the snapshot of the statement sees, and the version that the
	// statement has locked. They differ if another transaction has changed the row since the
	// snapshot. The update finds the first version, goes on to the newest version, and compares
	// its ctid with the array again. Without the second element, the update would then change
	// nothing. Older servers do not compare the ctid again, so the condition on the name is
	// necessary, too.
	//
	// If the row has few versions, the condition thisRow costs less.
	thisRow   = `l.name = $1`
	newestRow = `l.ctid = ANY (ARRAY[
		(` + newestVersion + `),
		(` + newestVersion + ` FOR NO KEY UPDATE)
	]) AND l.name = $1`
	newestVersion = `SELECT ctid FROM {table} WHERE name >= $1 AND name <= $1 ORDER BY name DESC LIMIT 1`

	// A try: $1 names, $2 owners, $3 notes, $4 TTL in microseconds, $5 how many tokens, $6
	// whether a release must notify, $7 whether to wait in the queue. The statement returns the
	// rows that it changed. It may read the time excluded.since before it waits for a locked
	// row. If a lease ends during that wait, the try is refused, and the next try finds the
	// name free. A new lease is counted from excluded.since, which is after the beginning of
	// the call. So it does not end before the time that the caller expects.
	//
	// The column `token` has the last token of a grant, so that a repeated grant has the same
	// tokens. A new token is never smaller than the time in microseconds. The column `tokens`
	// has the number of tokens of the grant. The column `waiters` has the owners that wait, in
	// their order. A grant removes the owner from this column, and also the owners before it,
	// whose turns have passed. The column `wanted` is true if one of the waiters listens. If
	// `wanted` is false, a release does not notify, because a notification costs more than the
	// rest of the release.
	tryOne = tryInsert + `
VALUES ($1, $2, $3, ` + tryToken + `, $5, clock_timestamp(), ` + tryExpires + `)
ON CONFLICT (name) DO UPDATE ` + trySet + `
WHERE ` + tryElse + `
RETURNING ` + columns + `,
	` + tryQuick
	tryAll = tryInsert + `
SELECT name, owner, note, ` + tryToken + `, $5, clock_timestamp(), ` + tryExpires + `
FROM unnest($1::text[], $2::text[], $3::text[]) AS c(name, owner, note) ORDER BY name COLLATE "C"
ON CONFLICT (name) DO UPDATE ` + trySet + `
WHERE ` + tryChanges + `
RETURNING ` + columns

	// tryNewest is a try of a name whose row has many versions. It does not create the row.
	tryNewest = `UPDATE {table} AS l ` + trySet + `
FROM (SELECT $2::text AS owner, $3::text AS note, ` + tryToken + ` AS token, $5::integer AS tokens,
	clock_timestamp() AS since, ` + tryExpires + ` AS expires) AS excluded
WHERE ` + newestRow + ` AND ` + tryElse + `
RETURNING ` + columns + `,
	` + tryQuick

	// tryFree is a try of a row that is free and has no waiters, which is the usual case, and
	// releaseAlone is the release of a claim that holds a name without waiters. They read and write
	// less than tryOne and releaseOne, and change nothing in any other case.
	tryFree = `UPDATE {table} AS l SET owner = $2, note = $3, token = greatest(l.token + $5, ` + tryToken + `), tokens = $5,
	since = clock_timestamp(), expires = ` + tryExpires + `
WHERE ` + thisRow + ` AND l.expires <= clock_timestamp() AND l.waiters = '{}'
RETURNING l.token, l.ctid`
	releaseAlone = `UPDATE {table} AS l SET owner = NULL, expires = 'epoch'
WHERE ` + thisRow + ` AND l.owner = $2 AND l.expires > clock_timestamp() AND l.waiters = '{}'
RETURNING true`

	tryInsert  = `INSERT INTO {table} AS l (name, owner, note, token, tokens, since, expires)`
	tryToken   = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5 - 1`
	tryExpires = `clock_timestamp() + $4 * interval '1 microsecond'`
	trySet     = `SET
	owner = CASE
		WHEN {taken} OR {held} THEN excluded.owner
		WHEN l.expires > excluded.since THEN l.owner END,
	note = CASE WHEN {taken} OR {held} THEN excluded.note ELSE l.note END,
	token = CASE WHEN {taken} THEN greatest(l.token + $5, excluded.token) ELSE l.token END,
	tokens = CASE WHEN {taken} THEN excluded.tokens ELSE l.tokens END,
	since = CASE WHEN {taken} THEN clock_timestamp() ELSE l.since END,
	expires = CASE
		WHEN {taken} THEN excluded.expires
		WHEN {held} THEN greatest(l.expires, excluded.expires)
		ELSE l.expires END,
	waiters = CASE
		WHEN {taken} THEN l.waiters[{position} + 2:]
		WHEN NOT {held} AND {queues} THEN l.waiters || excluded.owner
		ELSE l.waiters END,
	wanted = CASE
		WHEN {taken} THEN l.wanted AND {position} + 1 < cardinality(l.waiters)
		ELSE l.wanted OR $6 AND NOT {held} END`

	// tryChanges is true if the try changes the row.
	tryChanges = `{taken} OR {held} OR {queues} OR $6 AND NOT l.wanted`

	// A refused try has changed only the queue, or nothing. So it does not wait until the disk
	// or a standby has its changes. During such a wait the row would be locked for the next
	// client, even if nothing was changed. A crash may lose the position in the queue; then the
	// waiter tries again within a second. In the statements for one name, tryQuick is the end,
	// and tryElse is the condition of the update. The expression noWait prevents the wait. Both
	// use noWait only if nothing is granted. tryQuick also returns where the row is.
	tryQuick = `CASE WHEN l.owner IS DISTINCT FROM $2 THEN ` + noWait + ` END, l.ctid`
	tryElse  = `CASE
	WHEN ` + tryChanges + ` THEN true
	ELSE ` + noWait + ` IS NULL END`
	noWait = `set_config('synchronous_commit', 'off', true)`

	// tryPosition is how many waiters are before the claim. tryHeld is true if the claim holds
	// the name already.
	tryPosition = `coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters))`
	tryHeld     = `(l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since)`

	// columns are the columns that a statement returns, in the order of rows.Columns.
	columns = `l.name, coalesce(l.owner, ''), l.note, l.token, l.tokens,
	(extract(epoch FROM clock_timestamp() - l.since) * 1000000)::bigint,
	(extract(epoch FROM l.expires - clock_timestamp()) * 1000000)::bigint,
	coalesce(l.forced_owner, ''), coalesce(l.forced_reason, ''), array_to_string(l.waiters, ',')`

	// renewAll locks the rows of held names, and renews their leases. $1 names, $2 owners, $3
	// TTLs in microseconds.
	renewAll = `WITH u AS (
	SELECT l.name, l.owner, c.us
	FROM {table} AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name AND l.owner = c.owner
	WHERE l.expires > clock_timestamp() ORDER BY l.name FOR UPDATE OF l
)
UPDATE {table} AS l SET expires = greatest(l.expires, clock_timestamp() + u.us * interval '1 microsecond') FROM u WHERE l.name = u.name
RETURNING l.name, l.owner`

	// releaseHeld is true if the claim of a releaseOne holds the name.
	releaseHeld = `(l.owner IS NOT DISTINCT FROM u.owner AND l.expires > u.now)`

	// notify is the notification of a release: $4 the channel. It contains the first waiter and
	// the name.
	notify = `CASE WHEN l.wanted THEN pg_notify($4, l.waiters[1] || chr(10) || l.name)::text END`

	// readStatement: $1 names.
	readStatement = `SELECT ` + columns + `
FROM {table} AS l WHERE name = ANY($1)`

	// readNewest: $1 names. It reads the index from its end, as newestRow does.
	readNewest = `SELECT ` + columns + `
FROM unnest($1::text[]) AS c(key) CROSS JOIN LATERAL
	(SELECT * FROM {table} WHERE name >= c.key AND name <= c.key ORDER BY name DESC LIMIT 1) AS l`

	// lockTxStatement: $1 name. It changes the row, so that a transaction that waited for
	// the row cannot continue with an older snapshot.
	lockTxStatement = `INSERT INTO {table} AS l (name, token, since, expires) VALUES ($1, 1, clock_timestamp(), 'epoch')
ON CONFLICT (name) DO UPDATE SET token = l.token + 1, since = clock_timestamp()`

	// columnsStatement: $1 table. The setting quote_all_identifiers adds quotes to the names of
	// types. The statement removes them.
	columnsStatement = `SELECT a.attname, replace(format_type(a.atttypid, NULL), '"', ''), coalesce(c.collisdeterministic, true)
FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`
)

// tryTaken returns the expression that is true if the name is free for the claim, so that the
// claim takes the name.
func tryTaken() string {
	return fmt.Sprintf(`(l.expires + least(%s, %d) * interval '%d milliseconds' <= excluded.since)`, tryPosition, rows.Turns, rows.Turn.Milliseconds())
}

// tryQueues returns the expression that is true if the claim enters the queue.
func tryQueues() string {
	return fmt.Sprintf(`($7 AND array_position(l.waiters, excluded.owner) IS NULL AND cardinality(l.waiters) < %d)`, rows.Waiting)
}

// renewOne returns the renewal of one name. $3 TTL in microseconds. The parameter `row` is
// thisRow or newestRow.
func renewOne(row string) string {
	return `UPDATE {table} AS l SET expires = greatest(l.expires, clock_timestamp() + $3 * interval '1 microsecond')
WHERE ` + row + ` AND l.owner = $2 AND l.expires > clock_timestamp()
RETURNING l.name, l.owner`
}

// releaseOne returns the release of one name: $1 name, $2 owner, $3 and $4 as in releaseSet. The
// parameter `row` is thisRow or newestRow. The statement may read the time u.now before it waits
// for a locked row. If the lease ends during that wait and nobody takes the name, the release
// still ends the lease of its owner.
func releaseOne(row string) string {
	return `UPDATE {table} AS l ` + releaseSet(releaseHeld) + `
FROM (SELECT $2::text AS owner, $3::bigint AS us, clock_timestamp() AS now) AS u
WHERE ` + row + ` AND (` + releaseHeld + ` OR u.owner = ANY (l.waiters))
RETURNING l.name, u.owner, ` + notify
}

// releaseAll returns the release of several names: $1 names, $2 owners, $3 and $4 as in
// releaseSet. It locks the rows of held names, as renewAll does, and also the rows whose queue
// has the owner.
func releaseAll() string {
	return `WITH u AS (
	SELECT l.name, c.owner, c.us, l.owner IS NOT DISTINCT FROM c.owner AND l.expires > clock_timestamp() AS held
	FROM {table} AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name
	WHERE l.owner = c.owner AND l.expires > clock_timestamp() OR c.owner = ANY (l.waiters) ORDER BY l.name FOR UPDATE OF l
)
UPDATE {table} AS l ` + releaseSet("u.held") + `
FROM u WHERE l.name = u.name
RETURNING l.name, u.owner, ` + notify
}

// releaseSet returns the assignments of a release: $3 the time for which a name stays taken, in
// microseconds, $4 the channel. After that time, the name is reserved for its waiters, one after
// the other. A name without waiters is free for every claim after that time. The parameter
// `held` is the expression that is true if the claim holds the name.
func releaseSet(held string) string {
	return `SET
	owner = CASE
		WHEN NOT ` + held + ` THEN l.owner
		WHEN u.us > 0 THEN u.owner || '` + driver.KeptOwner + `' END,
	expires = CASE
		WHEN NOT ` + held + ` THEN l.expires
		WHEN u.us <= 0 AND l.waiters = '{}' THEN 'epoch'
		ELSE clock_timestamp() + u.us * interval '1 microsecond' END,
	waiters = array_remove(l.waiters, u.owner),
	wanted = l.wanted AND array_remove(l.waiters, u.owner) <> '{}'`
}
