package mysqlhold

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/rows"
)

const (
	pageStatement = `SELECT ` + columns + ` FROM {table} WHERE name >= ? AND name > ? ORDER BY name LIMIT ?`

	// The server executes assignments from left to right, so a column is changed after the
	// assignments that read it.
	forceStatement = `UPDATE {table} SET forced_owner = owner, forced_reason = ?, expires = IF(waiters = '', '1970-01-01', {now}), owner = NULL
WHERE name = ? AND owner = ? AND token = ? AND expires > {now}`
)

// Page reads rows in the order of their keys, which is also the order of the index.
func (t *table) Page(ctx context.Context, from, after string, most int) (page []rows.KeyedRow, err error) {
	err = t.scan(ctx, t.statements.page, []any{[]byte(from), []byte(after), most}, func(key string, r rows.Row) {
		page = append(page, rows.KeyedRow{Key: key, Row: r})
	})
	return page, err
}

// Force sends one statement. It does not notify waiters, because they poll the row.
func (t *table) Force(ctx context.Context, name, owner string, token uint64, reason string) (ended bool, err error) {
	why := []byte(reason)
	args := []any{why[:min(len(why), noteMost)], []byte(rows.Escape(name)), []byte(owner), int64(token)}
	changed, err := t.Exec(ctx, t.statements.force, args)
	return changed > 0, err
}
