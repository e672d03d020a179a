//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// Package fence on real databases.

// fenced is a value in a database, and the fence before it.
type fenced struct {
	db    *sql.DB
	table string
	write func(ctx context.Context, db *sql.DB, name string, token uint64, end error) error
}

// writeSQL sets the value to token in one transaction with the check, unless it ends with an
// error.
func writeSQL(dialect fence.SQL, update string) func(context.Context, *sql.DB, string, uint64, error) error {
	return func(ctx context.Context, db *sql.DB, name string, token uint64, end error) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := dialect.Check(ctx, tx, name, token); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, update, int64(token), name); err != nil || end != nil {
			return errors.Join(err, end)
		}
		return tx.Commit()
	}
}

// writePgx is the same with pgx.
func writePgx(ctx context.Context, db *sql.DB, name string, token uint64, end error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.Raw(func(c any) error {
		return pgx.BeginFunc(ctx, c.(*stdlib.Conn).Conn(), func(tx pgx.Tx) error {
			if err := pghold.CheckFence(ctx, tx, name, token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, updatePostgreSQL, int64(token), name)
			return errors.Join(err, end)
		})
	})
}

const updatePostgreSQL = "UPDATE data SET value = $1, writes = writes + 1 WHERE name = $2"

func (f fenced) value(t *testing.T, name string) (value uint64, writes int) {
	t.Helper()
	if err := f.db.QueryRow("SELECT value, writes FROM data WHERE name = '"+name+"'").Scan(&value, &writes); err != nil {
		t.Fatal(err)
	}
	return value, writes
}

func TestFenceInSQL(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) fenced{
		"PostgreSQL": func(t *testing.T) fenced {
			return fenced{sqltest.PostgreSQL(t), fence.PostgreSQLTable, writeSQL(fence.PostgreSQL, updatePostgreSQL)}
		},
		"PostgreSQL by pgx": func(t *testing.T) fenced {
			return fenced{sqltest.PostgreSQL(t), fence.PostgreSQLTable, writePgx}
		},
		"MariaDB": func(t *testing.T) fenced {
			return fenced{
				sqltest.MariaDB(t), fence.MySQLTable,
				writeSQL(fence.MySQL, "UPDATE data SET value = ?, writes = writes + 1 WHERE name = ?"),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.db.SetMaxOpenConns(100)
			for _, statement := range []string{
				f.table,
				f.table, // creating it again is no error
				"CREATE TABLE data (name varchar(100) PRIMARY KEY, value bigint, writes bigint)",
				"INSERT INTO data VALUES ('crowd', 0, 0), ('one', 0, 0)",
			} {
				if _, err := f.db.Exec(statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			t.Run("CreatedAtOnce", func(t *testing.T) { createdAtOnce(t, f) })
			t.Run("OneByOne", func(t *testing.T) { oneByOne(t, f) })
			t.Run("Crowd", func(t *testing.T) { crowd(t, f) })
		})
	}
}

// createdAtOnce has several instances of a program begin at the same time.
func createdAtOnce(t *testing.T, f fenced) {
	for range 10 {
		if _, err := f.db.Exec("DROP TABLE fence"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := f.db.Exec(f.table); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// oneByOne writes with known tokens.
func oneByOne(t *testing.T, f fenced) {
	for i, step := range []struct {
		name  string
		token uint64
		want  error
	}{
		{"one", 1 << 50, nil},
		{"one", 1 << 50, nil}, // the same holder writes again
		{"one", 1 << 50, nil},
		{"one", 1<<50 - 1, fence.ErrStale},
		{"ONE", 1, nil}, // names are what they are
		{"one ", 1, nil},
		{"one", 1<<50 + 1, nil},
		{"one", 1 << 50, fence.ErrStale},
		{"one", 1<<50 + 1, nil},
	} {
		if err := f.write(await.Context(t, 10*time.Second), f.db, step.name, step.token, nil); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("step %d, %q with %d: got %v, want %v", i, step.name, step.token, err, step.want)
		}
	}
	if value, writes := f.value(t, "one"); value != 1<<50+1 || writes < 5 {
		t.Errorf("got value %d after %d writes, want %d after 5 at least", value, writes, uint64(1<<50+1))
	}

	// What is rolled back has not been: neither the write nor its token.
	own := errors.New("rolled back")
	if err := f.write(await.Context(t, 10*time.Second), f.db, "one", 1<<60, own); !errors.Is(err, own) {
		t.Fatal(err)
	}
	if err := f.write(await.Context(t, 10*time.Second), f.db, "one", 1<<50+1, nil); err != nil {
		t.Errorf("after a roll-back: got %v, want nil", err)
	}
}

// crowd lets a hundred writers with different tokens write at the same time.
func crowd(t *testing.T, f fenced) {
	const writers = 100
	ctx := await.Context(t, 10*time.Second)
	var wg sync.WaitGroup
	for _, i := range rand.Perm(writers) {
		token := uint64(i + 1)
		wg.Go(func() {
			for range 3 {
				if err := f.write(ctx, f.db, "crowd", token, nil); err != nil && (token == writers || !errors.Is(err, fence.ErrStale)) {
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	wg.Wait()
	if value, writes := f.value(t, "crowd"); value != writers || writes < 3 {
		t.Errorf("got value %d after %d writes, want %d", value, writes, writers)
	}
}

func TestFenceScript(t *testing.T) {
	for name, script := range map[string]string{"fence.Script": fence.Script, "the script of the page": pages.First(t, page, "lua")} {
		t.Run(name, func(t *testing.T) { fencedByScript(t, script) })
	}
}

// fencedByScript writes to a hash with known tokens.
func fencedByScript(t *testing.T, script string) {
	server := redistest.Start(t)
	set := func(token, value string) error {
		return fence.Accepted(server.Do("EVAL", script, "1", "report", token, value))
	}
	for i, step := range []struct {
		token, value string
		want         error
	}{
		{"1767225600000034", "second holder", nil},
		{"1767225600000034", "second holder again", nil},
		{"1767225600000033", "first holder, late", fence.ErrStale},
		{"1767225600000035", "third holder", nil},
		{"9", "much shorter, not larger", fence.ErrStale},
	} {
		if err := set(step.token, step.value); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("step %d: got %v, want %v", i, err, step.want)
		}
	}
	if got := server.Map("HGETALL", "report"); got["value"] != "third holder" || got["token"] != "1767225600000035" {
		t.Errorf("got %v, want the third holder's", got)
	}
	server.String("SET", "report", "text")
	if err := set("1767225600000036", "x"); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a key of another type: got %v, want an error that is not ErrStale", err)
	}
}
