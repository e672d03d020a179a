//go:build unix

package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/pages"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// page is the document whose code runs in this file and, where it is Lua, in TestFenceScript.
const page = "docs/fencing.md"

func TestCodeIsThatOfThePage(t *testing.T) {
	pages.Within(t, page, "go", "internal/e2e/fencetest/page_test.go")
	for _, b := range pages.Of(t, page) {
		if !slices.Contains([]string{"go", "lua"}, b.Language) {
			t.Errorf("no test runs a block in the language %q:\n%s", b.Language, b.Text)
		}
	}
}

// sellUnder has lines of the page.
func sellUnder(ctx context.Context, db *sql.DB, lock *holdfast.Lock, sell func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fence.PostgreSQL.Check(ctx, tx, lock.Name(), lock.Token()); err != nil {
		return err // nothing was written
	}
	if err := sell(ctx, tx); err != nil { // the protected write
		return err
	}
	return tx.Commit()
}

// The table is the one that the page names for migrations. A holder writes twice, and not
// after the next holder.
func TestSQLOfThePage(t *testing.T) {
	db, ctx := sqltest.PostgreSQL(t), await.Context(t, 10*time.Second)
	table := regexp.MustCompile("`(CREATE TABLE fence [^`]*)`").FindStringSubmatch(pages.File(t, page))
	if table == nil {
		t.Fatalf("%s does not create the table", page)
	}
	for _, statement := range []string{table[1], "CREATE TABLE stock (pieces int)", "INSERT INTO stock VALUES (9)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	sell := func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET pieces = pieces - 1")
		return err
	}
	store := memhold.New()
	first := must.Lock(t, holdfast.New(store, nil), "stock:42")
	for range 2 {
		if err := sellUnder(ctx, db, first, sell); err != nil {
			t.Errorf("write of the first holder: %v", err)
		}
	}
	store.Drop("stock:42")
	second := must.Lock(t, holdfast.New(store, nil), "stock:42")
	if err := sellUnder(ctx, db, second, sell); err != nil {
		t.Errorf("write of the second holder: %v", err)
	}
	if err := sellUnder(ctx, db, first, sell); !errors.Is(err, fence.ErrStale) {
		t.Errorf("late write of the first holder: got %v, want ErrStale", err)
	}
	failed := errors.New("sold out")
	if err := sellUnder(ctx, db, second, func(context.Context, *sql.Tx) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want the error of the write", err)
	}
	var pieces int
	if err := db.QueryRow("SELECT pieces FROM stock").Scan(&pieces); err != nil || pieces != 6 {
		t.Errorf("got %d pieces and error %v, want 6: three of four writes", pieces, err)
	}
	_ = first.Unlock() // it was lost
	must.Unlock(t, second)
}

// request is a write that a holder sends to the process that owns the resource.
type request struct {
	Name  string
	Token uint64
}

func TestGuardOfThePage(t *testing.T) {
	var applied []uint64
	apply := func(r request) error {
		applied = append(applied, r.Token)
		return nil
	}
	var guard fence.Guard // one for all names
	serve := func(r request) error {
		return guard.Do(r.Name, r.Token, func() error { return apply(r) })
	}
	for _, token := range []uint64{34, 34, 33, 35} {
		if err := serve(request{"report", token}); errors.Is(err, fence.ErrStale) != (token == 33) {
			t.Errorf("token %d: got %v", token, err)
		}
	}
	if want := []uint64{34, 34, 35}; !slices.Equal(applied, want) {
		t.Errorf("got writes with tokens %v, want %v", applied, want)
	}
}

// The page has the condition of the statement that fence.PostgreSQL uses.
func TestConditionOfThePage(t *testing.T) {
	const condition = "ON CONFLICT (name) DO UPDATE SET token = EXCLUDED.token WHERE fence.token <= EXCLUDED.token"
	for _, name := range []string{page, "fence/sql.go"} {
		if !strings.Contains(strings.Join(strings.Fields(pages.File(t, name)), " "), condition) {
			t.Errorf("%s does not have %q", name, condition)
		}
	}
}
