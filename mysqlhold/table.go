package mysqlhold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/rows"
	"github.com/holdfast-go/holdfast/internal/sqlidle"
)

const (
	// noteMost is the longest note in bytes.
	noteMost = 1000
	// takenFor is for how long a name counts as taken after a Try found it taken.
	takenFor = 5 * time.Second
)

// table is a rows.Table.
type table struct {
	db         *sql.DB
	idle       *sqlidle.Pool
	layout     Layout
	path       []string // quoted
	name       string   // quoted
	statements statements

	// taken has names that a Try has just found taken. A try of such a name skips a locked row.
	// For that the server makes a temporary table, which takes half a millisecond: too long for
	// other names, whose rows are rarely locked.
	taken rows.Recent[struct{}]
}

// withConn calls use with a connection of the pool. If it gets no connection, its error says
// that nothing was executed.
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
	return fmt.Errorf("mysqlhold: %w %s: call CreateTable once, or have it made with:\n%s;\n%w, %w",
		rows.ErrNoTable, t.name, t.create(), driver.ErrRefused, driver.ErrNotExecuted)
}

// Check compares the columns, their types and the engine, and the settings of the session. If a
// time had the type TIMESTAMP, a session in another time zone would grant a name that is held.
// A session without autocommit would never commit its grants.
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
		return rows.Unfit("mysqlhold: table %s is not as it must be, see %s; it is made with:\n%s", t.name, strings.Join(wrong, ", "), t.create())
	}
	return nil
}

// schemaArgs returns the database and the name of the table as information_schema has them. The
// database is nil if it is that of the connection.
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
	err = t.withConn(ctx, func(conn *sql.Conn) error {
		changed, err = exec(ctx, conn, statement, args...)
		return err
	})
	return changed, err
}

func exec(ctx context.Context, conn *sql.Conn, statement string, args ...any) (changed int64, err error) {
	done, err := conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// Query runs a statement and calls scan for each row.
func (t *table) Query(ctx context.Context, statement string, args, into []any, scan func()) error {
	return t.withConn(ctx, func(conn *sql.Conn) error { return read(ctx, conn, statement, args, into, scan) })
}

func read(ctx context.Context, conn *sql.Conn, statement string, args, into []any, scan func()) error {
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
}

// Try makes one attempt for the only claim in cs. If the first statement changed nothing, Try
// reads the row: c.Owner may hold it already, with nothing to change, another owner may hold
// it, or it was locked for a moment. If the row does not exist, Try makes it, and the Engine
// tries again.
func (t *table) Try(ctx context.Context, cs []driver.Claim) (answers []rows.Row, err error) {
	c, answer := cs[0], rows.Row{}
	name, owner, note := []byte(rows.Escape(c.Name)), []byte(c.Owner), []byte(rows.Text(c.Note))
	err = t.withConn(ctx, func(conn *sql.Conn) error {
		statement, args := t.try(c, name, owner, note[:min(len(note), noteMost)])
		done, err := conn.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		changed, err := done.RowsAffected()
		if err != nil {
			return err
		}
		if last, err := done.LastInsertId(); err != nil || changed > 0 {
			answer = rows.Row{Known: true, Granted: true, First: uint64(last) - uint64(c.Tokens) + 1, Owner: c.Owner}
			return err
		}
		seen, err := t.readRows(ctx, conn, [][]byte{name})
		r, there := seen[string(name)]
		if r.Remaining > 0 {
			t.taken.Add(c.Name, struct{}{}, takenFor)
		}
		switch {
		case err != nil:
		case !there:
			_, err = conn.ExecContext(ctx, t.statements.insert, name)
		default:
			r.Granted = r.Remaining > 0 && r.Owner == c.Owner
			r.Known = r.Granted || r.FreeIn(c.Owner) > 0 // else it is free by now: the Engine tries again
			if answer = r; !r.Granted && r.Known && !c.NoQueue {
				err = t.enqueue(ctx, conn, name, owner, &answer)
				answer.Known = slices.Contains(answer.Waiters, c.Owner) || len(answer.Waiters) >= rows.Waiting // else it was locked: try again
			}
		}
		return err
	})
	return []rows.Row{answer}, err
}

// try returns the statement of a try, and its parameters.
func (t *table) try(c driver.Claim, name, owner, note []byte) (statement string, args []any) {
	before := []any{c.Tokens, c.Tokens, c.Tokens, owner, owner, owner, owner, rows.Micros(c.TTL), rows.Micros(c.TTL), owner, note}
	after := []any{owner, owner, owner}
	if _, taken := t.taken.Get(c.Name); taken {
		return t.statements.tryTaken, slices.Concat([]any{name}, before, after)
	}
	return t.statements.try, slices.Concat(before, []any{name}, after)
}

// enqueue puts an owner at the end of the queue of a row, unless the owner is in the queue or
// the row is locked. seen is the row as it was read: enqueue adds the owner to its waiters, too.
func (t *table) enqueue(ctx context.Context, conn *sql.Conn, name, owner []byte, seen *rows.Row) error {
	if slices.Contains(seen.Waiters, string(owner)) {
		return nil
	}
	changed, err := exec(ctx, conn, t.statements.enqueue, name, owner, owner, owner)
	if changed > 0 {
		seen.Waiters = append(seen.Waiters, string(owner))
	}
	return err
}

// readRows returns the rows of names, by name.
func (t *table) readRows(ctx context.Context, conn *sql.Conn, names [][]byte) (map[string]rows.Row, error) {
	found := make(map[string]rows.Row, len(names))
	args := make([]any, len(names))
	for i := range names {
		args[i] = names[i]
	}
	err := scan(ctx, conn, list(t.statements.readRows, len(names)), args, func(key string, r rows.Row) { found[key] = r })
	return found, err
}

// scan calls row for each row that a statement returns, in the order of columns.
func scan(ctx context.Context, conn *sql.Conn, statement string, args []any, row func(key string, r rows.Row)) error {
	var c rows.Columns
	return read(ctx, conn, statement, args, c.Into(), func() { row(c.Key, c.Row()) })
}

// Read reads rows.
func (t *table) Read(ctx context.Context, names []string) ([]rows.Row, error) {
	keys, answers := make([][]byte, len(names)), make([]rows.Row, len(names))
	for i, name := range names {
		keys[i] = []byte(rows.Escape(name))
	}
	return answers, t.withConn(ctx, func(conn *sql.Conn) error {
		found, err := t.readRows(ctx, conn, keys)
		for i, key := range keys {
			if answers[i] = found[string(key)]; answers[i].Remaining <= 0 {
				t.taken.Drop(names[i])
			}
		}
		return err
	})
}

// Renew sends one statement for each TTL, and most programs have only one TTL. It then reads
// which owners hold. A lease that had ended was not extended, so its owner does not hold.
func (t *table) Renew(ctx context.Context, cs []driver.Claim) ([]bool, error) {
	held := make([]bool, len(cs))
	byTTL := map[time.Duration][]int{}
	for i, c := range cs {
		byTTL[c.TTL] = append(byTTL[c.TTL], i)
	}
	return held, t.withConn(ctx, func(conn *sql.Conn) error {
		for ttl, group := range byTTL {
			var names, owners []any
			for _, i := range group {
				names, owners = append(names, []byte(rows.Escape(cs[i].Name))), append(owners, []byte(cs[i].Owner))
			}
			both := slices.Concat(names, owners)
			if _, err := conn.ExecContext(ctx, list(t.statements.renew, len(group)), append([]any{rows.Micros(ttl)}, both...)...); err != nil {
				return err
			}
			var name, owner string
			found := map[[2]string]bool{}
			if err := read(ctx, conn, list(t.statements.held, len(group)), both, []any{&name, &owner}, func() { found[[2]string{name, owner}] = true }); err != nil {
				return err
			}
			for _, i := range group {
				held[i] = found[[2]string{rows.Escape(cs[i].Name), cs[i].Owner}]
			}
		}
		return nil
	})
}

// Release releases the only claim in cs.
func (t *table) Release(ctx context.Context, cs []driver.Claim) (released []bool, err error) {
	c := cs[0]
	owner, keep := []byte(c.Owner), rows.Micros(c.AtLeast)
	args := []any{owner, keep, keep, owner, keep, owner, []byte(rows.Escape(c.Name)), owner, owner}
	changed, err := t.Exec(ctx, t.statements.release, args)
	return []bool{changed > 0}, err
}

// Listen is not supported: no server of this kind has notifications.
func (t *table) Listen(context.Context, func(), func(string, string)) error {
	return errors.ErrUnsupported
}

// list replaces {names} in a statement by n parameters.
func list(statement string, n int) string {
	return strings.ReplaceAll(statement, "{names}", strings.Repeat("?, ", n-1)+"?")
}
