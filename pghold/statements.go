package pghold

import (
	"fmt"
	"strconv"
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
	try, tryAll, renew, renewAll, release, releaseAll, readRows, lockTx string
	page, force                                                         string // for operators
}

// write returns the statements for the table.
func (t *table) write() statements {
	fill := strings.NewReplacer("{table}", t.name, "{us}", "interval '1 microsecond'", "{turn}", fmt.Sprintf("interval '%d milliseconds'", rows.Turn.Milliseconds()),
		"{turns}", strconv.Itoa(rows.Turns), "{waiting}", strconv.Itoa(rows.Waiting), "{kept}", driver.KeptOwner).Replace
	parts := strings.NewReplacer("{position}", tryPosition, "{taken}", tryTaken, "{held}", tryHeld, "{queues}", tryQueues)
	fillTry := func(statement, changes string) string {
		return fill(parts.Replace(strings.Replace(statement, "{changes}", changes, 1)))
	}
	return statements{
		try: fillTry(tryBegin+tryOne+tryEnd+tryQuick, tryElse), tryAll: fillTry(tryBegin+tryAll+tryEnd, tryChanges),
		renew: fill(renewOne), renewAll: fill(lockAll + renewAll),
		release: fill(releaseOne + releaseEnd), releaseAll: fill(lockQueued + releaseAll + releaseEnd),
		readRows: fill(readStatement), lockTx: fill(lockTxStatement),
		page: fill(pageStatement), force: fill(forceStatement),
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
	// A try: $1 names, $2 owners, $3 notes, $4 TTL in microseconds, $5 how many tokens, $6
	// whether a release must notify, $7 whether to wait in the queue. The statement returns the
	// rows that it changed. It reads the time excluded.since before it waits for a locked row.
	// If a lease ends during that wait, the try is refused, and the next try finds the name
	// free. A new lease is counted from excluded.since, which is after the beginning of the
	// call. So it does not end before the time that the caller expects.
	//
	// The column `token` has the last token of a grant, so that a repeated grant has the same
	// tokens. A new token is never smaller than the time in microseconds. The column `tokens`
	// has the number of tokens of the grant. The column `waiters` has the owners that wait, in
	// their order. A grant removes the owner from this column, and also the owners before it,
	// whose turns have passed. The column `wanted` is true if one of the waiters listens. If
	// `wanted` is false, a release does not notify, because a notification costs more than the
	// rest of the release.
	tryBegin = `INSERT INTO {table} AS l (name, owner, note, token, tokens, since, expires)
`
	tryOne = `VALUES ($1, $2, $3, ` + tryTimes + `)`
	tryAll = `SELECT name, owner, note, ` + tryTimes + `
FROM unnest($1::text[], $2::text[], $3::text[]) AS c(name, owner, note) ORDER BY name COLLATE "C"`
	tryTimes = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $5 - 1, $5, clock_timestamp(), clock_timestamp() + $4 * {us}`
	tryEnd   = `
ON CONFLICT (name) DO UPDATE SET
	owner = CASE WHEN {taken} OR {held} THEN excluded.owner WHEN l.expires > excluded.since THEN l.owner END,
	note = CASE WHEN {taken} OR {held} THEN excluded.note ELSE l.note END,
	token = CASE WHEN {taken} THEN greatest(l.token + $5, excluded.token) ELSE l.token END,
	tokens = CASE WHEN {taken} THEN excluded.tokens ELSE l.tokens END,
	since = CASE WHEN {taken} THEN clock_timestamp() ELSE l.since END,
	expires = CASE WHEN {taken} THEN excluded.expires WHEN {held} THEN greatest(l.expires, excluded.expires) ELSE l.expires END,
	waiters = CASE WHEN {taken} THEN l.waiters[{position} + 2:]
		WHEN NOT {held} AND {queues} THEN l.waiters || excluded.owner ELSE l.waiters END,
	wanted = CASE WHEN {taken} THEN l.wanted AND {position} + 1 < cardinality(l.waiters) ELSE l.wanted OR $6 AND NOT {held} END
WHERE {changes}
RETURNING ` + columns

	// tryChanges is true if the try changes the row.
	tryChanges = `{taken} OR {held} OR {queues} OR $6 AND NOT l.wanted`

	// A refused try has changed only the queue, or nothing. So it does not wait until the disk
	// or a standby has its changes. During such a wait the row would be locked for the next
	// client, even if nothing was changed. A crash may lose the position in the queue; then the
	// waiter tries again within a second. In the statement for one name, tryQuick is the end,
	// and tryElse is the condition of the update. The expression noWait prevents the wait. Both
	// use noWait only if nothing is granted.
	tryQuick = `, CASE WHEN owner IS DISTINCT FROM $2 THEN ` + noWait + ` END`
	tryElse  = `CASE WHEN ` + tryChanges + ` THEN true ELSE ` + noWait + ` IS NULL END`
	noWait   = `set_config('synchronous_commit', 'off', true)`

	// tryPosition is how many waiters are before the claim. tryTaken is true if the name is
	// free for the claim, so that the claim takes the name. tryHeld is true if the claim holds
	// the name already.
	tryPosition = `coalesce(array_position(l.waiters, excluded.owner) - 1, cardinality(l.waiters))`
	tryTaken    = `(l.expires + least(` + tryPosition + `, {turns}) * {turn} <= excluded.since)`
	tryHeld     = `(l.owner IS NOT DISTINCT FROM excluded.owner AND l.expires > excluded.since)`

	// tryQueues is true if the claim enters the queue.
	tryQueues = `($7 AND array_position(l.waiters, excluded.owner) IS NULL AND cardinality(l.waiters) < {waiting})`

	// columns are the columns that a statement returns, in the order of rows.Columns.
	columns = `name, coalesce(owner, ''), note, token, tokens,
	(extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint, (extract(epoch FROM expires - clock_timestamp()) * 1000000)::bigint,
	coalesce(forced_owner, ''), coalesce(forced_reason, ''), array_to_string(waiters, ',')`

	// lockAll locks the rows of held names. $1 names, $2 owners, $3 a time for each of the
	// names, which the rest of the statement uses.
	lockAll = `WITH u AS (
	SELECT l.name, l.owner, c.us
	FROM {table} AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name AND l.owner = c.owner
	WHERE l.expires > clock_timestamp() ORDER BY l.name FOR UPDATE OF l
)`

	// A renewal: $3 TTLs in microseconds.
	renewOne = `UPDATE {table} SET expires = greatest(expires, clock_timestamp() + $3 * {us})
WHERE name = $1 AND owner = $2 AND expires > clock_timestamp() RETURNING name, owner`
	renewAll = `
UPDATE {table} AS l SET expires = greatest(l.expires, clock_timestamp() + u.us * {us}) FROM u WHERE l.name = u.name
RETURNING l.name, l.owner`

	// lockQueued does what lockAll does, and also locks the rows whose queue has the owner.
	lockQueued = `WITH u AS (
	SELECT l.name, c.owner, c.us, l.owner IS NOT DISTINCT FROM c.owner AND l.expires > clock_timestamp() AS held
	FROM {table} AS l JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS c(name, owner, us) ON l.name = c.name
	WHERE l.owner = c.owner AND l.expires > clock_timestamp() OR c.owner = ANY (l.waiters) ORDER BY l.name FOR UPDATE OF l
)`

	// A release: $3 the time for which a name stays taken, in microseconds, $4 the channel.
	// After that time, the name is reserved for its waiters, one after the other. A name
	// without waiters is free for every claim after that time. The notification contains the
	// first waiter and the name.
	releaseOne = `WITH u AS (
	SELECT name, $2::text AS owner, $3::bigint AS us, owner IS NOT DISTINCT FROM $2 AND expires > clock_timestamp() AS held FROM {table}
	WHERE name = $1 AND (owner = $2 AND expires > clock_timestamp() OR $2 = ANY (waiters)) FOR UPDATE
)` + releaseAll
	releaseAll = `, r AS (
	UPDATE {table} AS l SET owner = CASE WHEN NOT held THEN l.owner WHEN u.us > 0 THEN u.owner || '{kept}' END,
		expires = CASE WHEN NOT held THEN l.expires WHEN u.us <= 0 AND l.waiters = '{}' THEN 'epoch'
			ELSE clock_timestamp() + u.us * {us} END,
		waiters = array_remove(l.waiters, u.owner), wanted = wanted AND array_remove(l.waiters, u.owner) <> '{}'
	FROM u WHERE l.name = u.name
	RETURNING l.name, u.owner, wanted, l.waiters[1] AS next
)`
	releaseEnd = `
SELECT name, owner, CASE WHEN wanted THEN pg_notify($4, next || chr(10) || name)::text END FROM r`

	// readStatement: $1 names.
	readStatement = `SELECT ` + columns + `
FROM {table} WHERE name = ANY($1)`

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
