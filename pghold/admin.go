package pghold

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/rows"
)

const (
	// pageStatement reads one page. The keys of the page are not smaller than $1, and larger
	// than $2. The page has at most $3 rows.
	pageStatement = `SELECT ` + columns + `
FROM {table} AS l WHERE name >= $1 AND name > $2 ORDER BY name LIMIT $3`

	// forceStatement: $1 name, $2 owner, $3 the last token of the lease, $4 reason, $5 the
	// channel.
	forceStatement = `WITH r AS (
	UPDATE {table} SET owner = NULL, expires = CASE WHEN waiters = '{}' THEN 'epoch' ELSE clock_timestamp() END, forced_owner = $2, forced_reason = $4
	WHERE name = $1 AND owner = $2 AND token = $3 AND expires > clock_timestamp()
	RETURNING name, wanted, waiters[1] AS next
)
SELECT CASE WHEN wanted THEN pg_notify($5, next || chr(10) || name)::text END FROM r`
)

// Page reads rows in the order of their keys, which is also the order of the index.
func (t *table) Page(ctx context.Context, from, after string, most int) (page []rows.KeyedRow, err error) {
	err = t.scan(ctx, t.statements.page, []any{from, after, int64(most)}, func(key string, r rows.Row) {
		page = append(page, rows.KeyedRow{Key: key, Row: r})
	})
	return page, err
}

// Force sends one statement, which notifies the waiters that listen.
func (t *table) Force(ctx context.Context, name, owner string, token uint64, reason string) (ended bool, err error) {
	args := []any{rows.Escape(name), owner, int64(token), reason, t.channel}
	err = t.Query(ctx, t.statements.force, args, []any{nil}, func() { ended = true })
	return ended, err
}
