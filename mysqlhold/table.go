package mysqlhold

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/sqlidle"
)

const (
	// noteMost is how many bytes a note has at most.
	noteMost = 1000
	// takenFor is how long a name stays in table.taken after a Try found the name taken.
	takenFor = 5 * time.Second
)

// table is a rows.Table.
type table struct {
	db         *sql.DB
	idle       *sqlidle.Pool
	layout     Layout
	path       []string // the quoted parts of the name: the database, if Options.Table has one, and the table
	name       string   // the quoted name of the table
	statements statements

	// taken has names that a Try has just found taken. A try of such a name skips a locked row.
	// To skip it, the server makes a temporary table, which takes half a millisecond. A try of
	// another name does not do this, because the row of that name is rarely locked.
	taken rows.Recent[struct{}]

	alone rows.Alone // names for which the statements tryFree and releaseAlone are enough
}

// withConn calls the function `use` with a connection of the pool. If the pool has no
// connection, withConn returns an error which says that nothing was executed.
func (t *table) withConn(ctx context.Context, use func(*sql.Conn) error) (err error) {
	defer func() { t.idle.Noted(err) }()
	began := time.Now()
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return noConnection(t.idle.NoneFree(began, err))
	}
	defer conn.Close()
	err = use(conn)
	if numberOf(err) == noSuchTable {
		return t.absent()
	}
	return classify(err)
}

// absent returns the error for a table that does not exist.
func (t *table) absent() error {
	return fmt.Errorf("mysqlhold: %w %s: call CreateTable once, or create the table with:\n%s;\n%w, %w",
		rows.ErrNoTable, t.name, t.create(), driver.ErrRefused, driver.ErrNotExecuted)
}

// Check checks the columns, their types, the engine, and the settings of the session. If a time
// had the type TIMESTAMP, a session in another time zone would grant a name that is held. A
// session without autocommit would never commit its grants.
func (t *table) Check(ctx context.Context) error {
	want := map[string]string{
		"name": "varbinary(2060)", "owner": "varbinary(100)", "note": "varbinary(1000)", "token": "bigint", "tokens": "int",
		"since": "datetime(6)", "expires": "datetime(6)", "waiters": "blob",
		"forced_owner": "varbinary(100)", "forced_reason": "varbinary(1000)",
	}
	var wrong []string
	seen, commits, noEmpty := 0, true, false
	var column, is, engine string
	err := t.Query(ctx, columnsStatement, t.schemaArgs(), []any{&column, &is, &engine, &commits, &noEmpty}, func() {
		seen++
		if need, ours := want[column]; ours && is != need && !strings.HasPrefix(is, need+"(") {
			wrong = append(wrong, column)
		}
		if engine != "InnoDB" && seen == 1 {
			wrong = append(wrong, "ENGINE="+engine)
		}
		delete(want, column)
	})
	for column := range want {
		wrong = append(wrong, column)
	}
	switch {
	case err != nil:
		return err
	case seen == 0:
		return t.absent()
	case !commits:
		return rows.Unfit("mysqlhold: sessions do not commit by themselves: remove autocommit=0")
	case noEmpty:
		return rows.Unfit("mysqlhold: an empty text is NULL in these sessions: remove EMPTY_STRING_IS_NULL from sql_mode")
	case len(wrong) > 0:
		return rows.Unfit("mysqlhold: table %s is not as it must be, see %s; create it with:\n%s", t.name, strings.Join(wrong, ", "), t.create())
	}
	return nil
}

// schemaArgs returns the database and the name of the table as information_schema has them. If
// Options.Table has no database, the result for the database is nil, which means the database
// of the connection.
func (t *table) schemaArgs() []any {
	bare := func(quoted string) string { return strings.ReplaceAll(strings.Trim(quoted, "`"), "``", "`") }
	var database any
	if len(t.path) > 1 {
		database = bare(t.path[0])
	}
	return []any{database, bare(t.path[len(t.path)-1])}
}

// Exec runs a statement as a transaction of its own, and returns how many rows it changed.
func (t *table) Exec(ctx context.Context, statement string, args []any) (changed int64, err error) {
	changed, _, err = t.exec(ctx, statement, args)
	return changed, err
}

// exec does what Exec does, and also returns the LAST_INSERT_ID of the statement.
func (t *table) exec(ctx context.Context, statement string, args []any) (changed, last int64, err error) {
	err = t.withConn(ctx, func(conn *sql.Conn) error {
		done, err := conn.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		if changed, err = done.RowsAffected(); err != nil {
			return err
		}
		last, err = done.LastInsertId()
		return err
	})
	return changed, last, err
}

// Query runs a statement. For each row, it stores the columns in the elements of `into` and
// calls the function `scan`.
func (t *table) Query(ctx context.Context, statement string, args, into []any, scan func()) error {
	return t.withConn(ctx, func(conn *sql.Conn) error {
		found, err := conn.QueryContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			if err := found.Scan(into...); err != nil {
				return err
			}
			scan()
		}
		return found.Err()
	})
}

// Try makes one attempt for the only claim in cs. If the first statement has changed nothing,
// Try reads the row. There are three possible causes: c.Owner holds the name already and the
// row needs no change, another owner holds the name, or the row was locked for a moment. If
// there is no row, Try makes it, and the Engine tries again.
func (t *table) Try(ctx context.Context, cs []driver.Claim) ([]rows.Row, error) {
	c := cs[0]
	name, owner, note := []byte(rows.Escape(c.Name)), []byte(c.Owner), []byte(rows.Text(c.Note))
	note = note[:min(len(note), noteMost)]
	var changed, last int64
	var err error
	if t.isAlone(c.Name) && !c.Indeterminate { // otherwise an earlier try may have taken the name
		changed, last, err = t.exec(ctx, t.statements.tryFree, []any{c.Tokens, c.Tokens, c.Tokens, rows.Micros(c.TTL), owner, note, name})
		if err == nil && changed == 0 {
			t.alone.Shared(c.Name)
		}
	}
	if err == nil && changed == 0 {
		statement, args := t.try(c, name, owner, note)
		changed, last, err = t.exec(ctx, statement, args)
	}
	if err != nil {
		return nil, err
	}
	if changed > 0 {
		t.alone.Granted(c.Name)
		return []rows.Row{{Known: true, Granted: true, First: uint64(last) - uint64(c.Tokens) + 1, Owner: c.Owner}}, nil
	}
	seen, err := t.readRows(ctx, []any{name})
	if err != nil {
		return nil, err
	}
	r, there := seen[string(name)]
	if !there {
		_, err = t.Exec(ctx, t.statements.insert, []any{name})
		return []rows.Row{r}, err
	}
	if r.Remaining > 0 {
		t.taken.Add(c.Name, struct{}{}, takenFor)
		t.alone.Shared(c.Name)
	}
	r.Granted = r.Remaining > 0 && r.Owner == c.Owner
	r.Known = r.Granted || r.FreeIn(c.Owner) > 0 // else the name is free by now: the Engine tries again
	if r.Known && !r.Granted && !c.NoQueue {
		err = t.enqueue(ctx, name, owner, &r)
		r.Known = slices.Contains(r.Waiters, c.Owner) || len(r.Waiters) >= rows.Waiting // else the row was locked: the Engine tries again
	}
	return []rows.Row{r}, err
}

// isAlone reports whether the statements tryFree and releaseAlone are probably enough for a name.
// They wait for a locked row, so they are not for a name in table.taken.
func (t *table) isAlone(name string) bool {
	_, taken := t.taken.Get(name)
	return !taken && t.alone.Is(name)
}

// try returns the statement for a try, and the parameters of the statement.
func (t *table) try(c driver.Claim, name, owner, note []byte) (statement string, args []any) {
	before := []any{c.Tokens, c.Tokens, c.Tokens, owner, owner, owner, owner, rows.Micros(c.TTL), rows.Micros(c.TTL), owner, note}
	after := []any{owner, owner, owner}
	if _, taken := t.taken.Get(c.Name); taken {
		return t.statements.tryTaken, slices.Concat([]any{name}, before, after)
	}
	return t.statements.try, slices.Concat(before, []any{name}, after)
}

// enqueue puts an owner at the end of the queue of a row, unless the owner is in the queue, the
// queue is full, or the row is locked. The parameter `seen` is the row that readRows has
// returned. If enqueue has changed the row, it adds the owner to seen.Waiters.
func (t *table) enqueue(ctx context.Context, name, owner []byte, seen *rows.Row) error {
	if slices.Contains(seen.Waiters, string(owner)) {
		return nil
	}
	changed, err := t.Exec(ctx, t.statements.enqueue, []any{name, owner, owner, owner})
	if changed > 0 {
		seen.Waiters = append(seen.Waiters, string(owner))
	}
	return err
}

// readRows returns the rows with these keys, by key.
func (t *table) readRows(ctx context.Context, keys []any) (map[string]rows.Row, error) {
	found := make(map[string]rows.Row, len(keys))
	err := t.scan(ctx, list(t.statements.readRows, len(keys)), keys, func(key string, r rows.Row) { found[key] = r })
	return found, err
}

// scan calls the function `row` for each row that a statement returns. The statement must
// select what the constant `columns` lists.
func (t *table) scan(ctx context.Context, statement string, args []any, row func(key string, r rows.Row)) error {
	var c rows.Columns
	return t.Query(ctx, statement, args, c.Into(), func() { row(c.Key, c.Row()) })
}

// Read returns one Row for each name. It removes the names that are free from table.taken.
func (t *table) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	keys, answers := make([]any, len(names)), make([]rows.Row, len(names))
	for i, name := range names {
		keys[i] = []byte(rows.Escape(name))
	}
	found, err := t.readRows(ctx, keys)
	for i, name := range names {
		if answers[i] = found[rows.Escape(name)]; answers[i].Remaining <= 0 {
			t.taken.Drop(name)
		}
	}
	return answers, err
}

// Renew sends one statement for each TTL. Most programs have only one TTL. After each
// statement, Renew reads which owners are holders now. If a lease had ended, the statement has
// not extended it, so its owner is no holder.
func (t *table) Renew(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	names, owners := map[time.Duration][]any{}, map[time.Duration][]any{}
	for _, c := range cs {
		names[c.TTL] = append(names[c.TTL], []byte(rows.Escape(c.Name)))
		owners[c.TTL] = append(owners[c.TTL], []byte(c.Owner))
	}
	type hold struct{ name, owner string }
	var r hold
	found := make(map[hold]bool, len(cs))
	for ttl := range names {
		n, both := len(names[ttl]), slices.Concat(names[ttl], owners[ttl])
		if _, err := t.Exec(ctx, list(t.statements.renew, n), append([]any{rows.Micros(ttl)}, both...)); err != nil {
			return nil, err
		}
		if err := t.Query(ctx, list(t.statements.held, n), both, []any{&r.name, &r.owner}, func() { found[r] = true }); err != nil {
			return nil, err
		}
	}
	held := make([]bool, len(cs))
	for i, c := range cs {
		held[i] = found[hold{rows.Escape(c.Name), c.Owner}]
	}
	return held, nil
}

// Release releases the only claim in cs.
func (t *table) Release(ctx context.Context, cs []driver.Claim) (released []bool, err error) {
	c := cs[0]
	name, owner, keep := []byte(rows.Escape(c.Name)), []byte(c.Owner), rows.Micros(c.AtLeast)
	if c.AtLeast <= 0 && t.isAlone(c.Name) {
		changed, err := t.Exec(ctx, t.statements.releaseAlone, []any{name, owner})
		if changed > 0 || err != nil {
			return []bool{changed > 0}, err
		}
		t.alone.Shared(c.Name)
	}
	args := []any{owner, keep, keep, owner, keep, owner, name, owner, owner}
	changed, err := t.Exec(ctx, t.statements.release, args)
	return []bool{changed > 0}, err
}

// list replaces {names} in a statement by a list of n parameters.
func list(statement string, n int) string {
	return strings.ReplaceAll(statement, "{names}", strings.Repeat("?, ", n-1)+"?")
}
