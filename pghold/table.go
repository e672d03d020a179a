package pghold

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
)

// table is a rows.Table.
type table struct {
	lend       source
	log        *slog.Logger
	layout     Layout
	name       string // the quoted name of the table
	channel    string
	listen     *pgx.ConnConfig // nil: rows are polled
	statements statements
	warned     atomic.Bool // true after the warning was logged that `listen` leads to a pooler

	pages  rows.Recent[uint32]   // the page of the row of a name
	moving rows.Recent[struct{}] // names whose rows probably have many versions, see sawPage
	alone  rows.Alone            // names for which the statements tryFree and releaseAlone are enough
}

// Query runs a statement as a transaction of its own. For each row, it stores the columns in
// the elements of `into` and calls the function `scan`.
func (t *table) Query(ctx context.Context, statement string, args, into []any, scan func()) error {
	err := t.lend(ctx, func(conn *pgx.Conn) error {
		return send(ctx, conn, func(mode pgx.QueryExecMode) error {
			found, err := conn.Query(ctx, statement, append([]any{mode}, args...)...)
			if err == nil {
				_, err = pgx.ForEachRow(found, into, func() error {
					scan()
					return nil
				})
			}
			return err
		})
	})
	if codeOf(err) == undefinedTable {
		return t.absent()
	}
	return err
}

// absent returns the error for a table that does not exist.
func (t *table) absent() error {
	return fmt.Errorf("pghold: %w %s: call CreateTable once, or create the table with:\n%s;\n%w, %w",
		rows.ErrNoTable, t.name, t.create(), driver.ErrRefused, driver.ErrNotExecuted)
}

// Check compares the columns and their types. If a time had no time zone, a session in another
// time zone would grant a name that is held.
func (t *table) Check(ctx context.Context) error {
	want := map[string]string{
		"name": "text", "owner": "text", "note": "text", "token": "bigint", "tokens": "integer", "waiters": "text[]", "wanted": "boolean",
		"since": "timestamp with time zone", "expires": "timestamp with time zone",
		"forced_owner": "text", "forced_reason": "text",
	}
	var column, is string
	var sound bool
	var wrong []string
	seen := 0
	err := t.Query(ctx, columnsStatement, []any{t.name}, []any{&column, &is, &sound}, func() {
		seen++
		if need, ours := want[column]; ours && (is != need || !sound) {
			wrong = append(wrong, column)
		}
		delete(want, column)
	})
	switch {
	case err != nil:
		return err
	case seen == 0:
		return t.absent()
	case len(wrong)+len(want) > 0:
		for column := range want {
			wrong = append(wrong, column)
		}
		return rows.Unfit("pghold: table %s is not as it must be, see %s; create it with:\n%s", t.name, strings.Join(wrong, ", "), t.create())
	}
	return nil
}

// Try sends one statement. If this statement does not return the rows of all names, Try reads
// the missing rows with a second statement. For a name that only this client seems to want, Try
// sends the statement tryFree first.
func (t *table) Try(ctx context.Context, cs []driver.Claim) ([]rows.Row, error) {
	if t.isAlone(cs) && !cs[0].Indeterminate { // otherwise an earlier try may have taken the name
		answer, err := t.tryFree(ctx, &cs[0])
		if answer.Granted || err != nil {
			return []rows.Row{answer}, err
		}
	}
	a := newArguments(cs, func(driver.Claim) time.Duration { return 0 })
	statement := t.statements.tryAll
	args := []any{a.names, a.owners, a.notes}
	if len(cs) == 1 {
		statement = t.statements.try
		args = []any{a.names[0], a.owners[0], a.notes[0]}
		if t.moves(a.names[0]) {
			statement = t.statements.tryNewest
		}
	}
	answers := make([]rows.Row, len(cs))
	args = append(args, rows.Micros(cs[0].TTL), int64(cs[0].Tokens), t.listen != nil && !cs[0].NoQueue, !cs[0].NoQueue)
	err := t.read(ctx, statement, args, a.names, answers)
	if err != nil {
		return nil, err
	}
	var missing []string
	for i := range answers {
		answers[i].Granted = answers[i].Known && answers[i].Owner == cs[i].Owner
		if answers[i].Granted {
			t.alone.Granted(cs[i].Name)
		}
		if !answers[i].Granted || len(answers[i].Waiters) > 0 {
			t.alone.Shared(cs[i].Name)
		}
		if !answers[i].Known {
			missing = append(missing, a.names[i])
		}
	}
	if len(missing) > 0 {
		t.describe(ctx, missing, cs, a.names, answers)
	}
	return answers, nil
}

// isAlone reports whether the statements tryFree and releaseAlone are probably enough for the claims.
func (t *table) isAlone(cs []driver.Claim) bool {
	return len(cs) == 1 && t.alone.Is(cs[0].Name) && !t.moves(rows.Escape(cs[0].Name))
}

// tryFree sends the statement tryFree for the claim c. If the name was not granted, it returns the
// zero Row.
func (t *table) tryFree(ctx context.Context, c *driver.Claim) (answer rows.Row, err error) {
	name := rows.Escape(c.Name)
	var token int64
	var at pgtype.TID
	args := []any{name, c.Owner, rows.Text(c.Note), rows.Micros(c.TTL), int64(c.Tokens)}
	err = t.Query(ctx, t.statements.tryFree, args, []any{&token, &at}, func() { answer.Granted = true })
	if !answer.Granted {
		return answer, err
	}
	t.sawPage(name, at.BlockNumber)
	t.alone.Granted(c.Name)
	answer.Known, answer.Owner, answer.Note, answer.Remaining = true, c.Owner, c.Note, c.TTL
	answer.Last = uint64(token) //nolint:gosec // a token is positive
	answer.First = answer.Last - uint64(c.Tokens) + 1
	return answer, err
}

const (
	// movingFor is how long the table remembers the page of a row, and that the row has changed
	// its page.
	movingFor = time.Minute

	// fewPages is the size of a table for which statements may read all versions of a row. If a
	// table has so few pages, the server may plan to read the whole table, and keep this plan
	// for a prepared statement while the table grows.
	fewPages = 16
)

// sawPage remembers the page of the row of a name. Pages have free space, so the versions of a
// row stay on one page. If a row changes its page, the server keeps its old versions.
func (t *table) sawPage(name string, page uint32) {
	if last, known := t.pages.Get(name); known && last != page && page >= fewPages {
		t.moving.Add(name, struct{}{}, movingFor)
	}
	t.pages.Add(name, page, movingFor)
}

// moves reports whether the row of a name probably has many versions.
func (t *table) moves(name string) bool {
	_, moves := t.moving.Get(name)
	return moves
}

// describe handles the names that the statement of a Try did not change, which are in
// `missing`. It reads their rows, and fills in answers[i] for names[i]. If it cannot read the
// rows, it fills in rows without a holder, because the names are certainly not granted. If a
// row is free by now, its answer stays unknown, so that the Engine tries again.
func (t *table) describe(ctx context.Context, missing []string, cs []driver.Claim, names []string, answers []rows.Row) {
	seen := make([]rows.Row, len(names))
	err := t.read(ctx, t.reading(missing), []any{missing}, names, seen)
	for i := range answers {
		switch {
		case answers[i].Known:
		case err != nil:
			answers[i].Known = true
		case !seen[i].Known:
			t.moving.Drop(names[i]) // tryNewest does not create the row
		case seen[i].FreeIn(cs[i].Owner) > 0:
			answers[i] = seen[i]
		}
	}
}

// Renew sends one statement.
func (t *table) Renew(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	a := newArguments(cs, func(c driver.Claim) time.Duration { return c.TTL })
	one := t.statements.renew
	if t.moves(a.names[0]) {
		one = t.statements.renewNewest
	}
	return t.found(ctx, cs, a, one, t.statements.renewAll)
}

// Release sends one statement. For a name that only this client seems to want, Release sends the
// statement releaseAlone first.
func (t *table) Release(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	if t.isAlone(cs) && cs[0].AtLeast <= 0 {
		released := false
		args := []any{rows.Escape(cs[0].Name), cs[0].Owner}
		err := t.Query(ctx, t.statements.releaseAlone, args, []any{&released}, func() {})
		if released || err != nil {
			return []bool{released}, err
		}
		t.alone.Shared(cs[0].Name)
	}
	a := newArguments(cs, func(c driver.Claim) time.Duration { return c.AtLeast })
	one := t.statements.release
	if t.moves(a.names[0]) {
		one = t.statements.releaseNewest
	}
	return t.found(ctx, cs, a, one, t.statements.releaseAll, t.channel)
}

// found runs the statement `one` for a single claim, and the statement `all` for several
// claims. It returns for each claim whether the statement has returned the name and the owner
// of the claim.
func (t *table) found(ctx context.Context, cs []driver.Claim, a arguments, one, all string, more ...any) ([]bool, error) {
	statement := all
	args := []any{a.names, a.owners, a.times}
	if len(cs) == 1 {
		statement = one
		args = []any{a.names[0], a.owners[0], a.times[0]}
	}
	type row struct{ name, owner string }
	var r row
	into := []any{&r.name, &r.owner}
	for range more {
		into = append(into, nil)
	}
	found := make(map[row]bool, len(cs))
	err := t.Query(ctx, statement, append(args, more...), into, func() { found[r] = true })
	answers := make([]bool, len(cs))
	for i, c := range cs {
		answers[i] = found[row{a.names[i], c.Owner}]
	}
	return answers, err
}

// Read returns one Row for each name, in the order of the names.
func (t *table) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = rows.Escape(name)
	}
	answers := make([]rows.Row, len(names))
	return answers, t.read(ctx, t.reading(keys), []any{keys}, keys, answers)
}

// reading returns the statement that reads the rows of names.
func (t *table) reading(names []string) string {
	if slices.ContainsFunc(names, t.moves) {
		return t.statements.readNewest
	}
	return t.statements.readRows
}

// read runs a statement, and stores its rows in `answers`: answers[i] is the row of names[i],
// or the zero Row if the statement has returned no row of this name.
func (t *table) read(ctx context.Context, statement string, args []any, names []string, answers []rows.Row) error {
	found := make(map[string]rows.Row, len(names))
	err := t.scan(ctx, statement, args, func(key string, r rows.Row) { found[key] = r })
	for i, name := range names {
		answers[i] = found[name]
	}
	return err
}

// scan calls the function `row` for each row that a statement returns. The statement must
// select what the constant `columns` lists.
func (t *table) scan(ctx context.Context, statement string, args []any, row func(key string, r rows.Row)) error {
	var c rows.Columns
	into := c.Into()
	var at pgtype.TID
	if statement == t.statements.try || statement == t.statements.tryNewest {
		into = append(into, nil, &at) // tryQuick
	}
	return t.Query(ctx, statement, args, into, func() {
		if at.Valid {
			t.sawPage(c.Key, at.BlockNumber)
		}
		row(c.Key, c.Row())
	})
}

// arguments are the parameters of statements for several claims. The field `times` has the time
// that the caller of newArguments chooses for each claim, in microseconds.
type arguments struct {
	names, owners, notes []string
	times                []int64
}

func newArguments(cs []driver.Claim, of func(driver.Claim) time.Duration) (a arguments) {
	for _, c := range cs {
		a.names = append(a.names, rows.Escape(c.Name))
		a.owners = append(a.owners, c.Owner)
		a.notes = append(a.notes, rows.Text(c.Note))
		a.times = append(a.times, rows.Micros(of(c)))
	}
	return a
}
