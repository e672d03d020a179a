package shedlock

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// Table is a rows.Table. Its methods Try and Release accept exactly one claim.
type Table struct {
	Database
	dialect    Dialect
	statements Statements
}

var _ rows.Table = (*Table)(nil)

// New returns a Table. It does no I/O.
func New(db Database, d Dialect) *Table {
	return &Table{Database: db, dialect: d, statements: d.Statements()}
}

// keyOf returns the text that the column `name` of the table has for the name of a lock. It
// returns an error if this text is too long.
func keyOf(name string) (string, error) {
	key := rows.Escape(name)
	if n := utf8.RuneCountInString(key); n > maxName {
		return "", fmt.Errorf("shedlock: the table has room for names of %d characters, not for %q: %w, %w", maxName, key, driver.ErrInvalid, driver.ErrNotExecuted)
	}
	return key, nil
}

// Try makes one attempt for the only claim in cs. If the row does not exist, Try makes the row
// and tries once more.
func (t *Table) Try(ctx context.Context, cs []driver.Claim) ([]rows.Row, error) {
	c := cs[0]
	key, err := keyOf(c.Name)
	if err != nil {
		return nil, err
	}
	lease := us(c.TTL)
	lockedBy := by(holds, c.Owner, c.Note)
	args := []any{lockedBy, lockedBy, lease, lease, lockedBy, key, key, lockedBy}
	if t.dialect.Unlocked != "" {
		args = []any{key, lockedBy, lockedBy, lease, lease, lockedBy, key, lockedBy}
	}
	for range 2 {
		changed, err := t.Exec(ctx, t.statements.Try, args)
		if err != nil {
			return nil, err
		}
		if changed > 0 {
			return []rows.Row{{Known: true, Granted: true, Owner: c.Owner}}, nil
		}
		r, err := t.one(ctx, key)
		if err != nil || r.Known {
			r.Granted = r.Remaining > 0 && r.Owner == c.Owner // the update found nothing to change
			r.Known = r.Remaining > 0                         // if false, the name is free by now: the Engine tries again
			return []rows.Row{r}, err
		}
		if _, err := t.Exec(ctx, t.statements.Insert, []any{key}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("shedlock: the row of %q is not found after it was made: the column cannot keep that name: %w, %w", key, driver.ErrInvalid, driver.ErrNotExecuted)
}

// one returns the row of a key. If the key has no row, but the column treats the name of
// another row as equal to the key, the function returns an error, because the two names would
// be one lock.
func (t *Table) one(ctx context.Context, key string) (rows.Row, error) {
	var found rows.Row
	other := ""
	err := t.scan(ctx, t.dialect.Read(1), []any{key}, func(s *stored) {
		if s.name != key {
			other = s.name
			return
		}
		found = s.row()
	})
	if err == nil && !found.Known && other != "" {
		err = fmt.Errorf("shedlock: the column name takes %q for the same as %q, of which there is a row: use that spelling, or a column that compares bytes: %w, %w",
			key, other, driver.ErrInvalid, driver.ErrNotExecuted)
	}
	return found, err
}

// Renew sends a statement for each claim.
func (t *Table) Renew(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	held := make([]bool, len(cs))
	for i, c := range cs {
		key := rows.Escape(c.Name)
		began := time.Now()
		changed, err := t.Exec(ctx, t.statements.Renew, []any{us(c.TTL), key, by(holds, c.Owner, c.Note)})
		if err == nil && changed == 0 { // the lease may have had its new length already
			var r []rows.Row
			if r, err = t.Read(ctx, []string{c.Name}); err == nil {
				held[i] = r[0].Owner == c.Owner && r[0].Remaining >= c.TTL-time.Since(began)
			}
		}
		if err != nil {
			return held, err
		}
		held[i] = held[i] || changed > 0
	}
	return held, nil
}

// Release releases the only claim in cs.
func (t *Table) Release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	c := cs[0]
	keep := int64(0)
	if c.AtLeast > 0 {
		keep = us(c.AtLeast)
	}
	changed, err := t.Exec(ctx, t.statements.Release, []any{
		keep, by(released, c.Owner, c.Note), rows.Escape(c.Name), by(holds, c.Owner, c.Note),
	})
	return []bool{changed > 0}, err
}

// Read returns the row of each name, in the order of the names.
func (t *Table) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	answers := make([]rows.Row, len(names))
	if len(names) == 0 {
		return answers, nil
	}
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = rows.Escape(name)
	}
	found := make(map[any]rows.Row, len(names))
	err := t.scan(ctx, t.dialect.Read(len(names)), args, func(s *stored) { found[s.name] = s.row() })
	for i := range names {
		answers[i] = found[args[i]]
	}
	return answers, err
}

// Page reads rows in the order of the bytes of their names.
func (t *Table) Page(ctx context.Context, from, after string, most int) (page []rows.KeyedRow, err error) {
	err = t.scan(ctx, t.statements.Page, []any{from, after, int64(most)}, func(s *stored) {
		page = append(page, rows.KeyedRow{Key: s.name, Row: s.row()})
	})
	return page, err
}

// Force reads the row. If `owner` holds the lock, Force ends this hold, but only if the row
// still has the same hold.
func (t *Table) Force(ctx context.Context, name, owner string, _ uint64, reason string) (bool, error) {
	key := rows.Escape(name)
	var found stored
	err := t.scan(ctx, t.dialect.Read(1), []any{key}, func(s *stored) {
		if s.name == key {
			found = *s
		}
	})
	if r := found.row(); err != nil || r.Owner != owner {
		return false, err
	}
	changed, err := t.Exec(ctx, t.statements.Force, []any{by(forced, owner, reason), key, found.by, found.since})
	return changed > 0, err
}

// scan calls the function `row` for each row that a statement returns. The statement must
// select what the constant `columns` lists.
func (t *Table) scan(ctx context.Context, statement string, args []any, row func(*stored)) error {
	var s stored
	return t.Query(ctx, statement, args, []any{&s.name, &s.by, &s.held, &s.rest, &s.since}, func() { row(&s) })
}
