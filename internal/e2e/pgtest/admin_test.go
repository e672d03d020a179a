package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// A list has the names that are taken, whatever bytes they have, in the order in which
// the index keeps them, and not those of transactions.
func TestList(t *testing.T) {
	url := database(t)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	var want []string
	batch := make([]driver.Claim, 0, 1200)
	for i := range cap(batch) {
		batch = append(batch, sqltest.Claim(fmt.Sprintf("job %04d", i), uint64(i+1)))
	}
	for i, a := range b.TryAll(t.Context(), batch) {
		if a.Err != nil || !a.Outcome.Granted {
			t.Fatalf("TryAll: got %+v", a)
		}
		if i%2 == 0 {
			want = append(want, batch[i].Name)
		}
	}
	for i, c := range batch {
		if i%2 == 1 {
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, name := range []string{"Job", "jobs", `job \ 1`, "job é", "job \xc3", "zé\x00"} {
		if out, err := b.Try(t.Context(), sqltest.Claim(name, uint64(2000+i))); err != nil || !out.Granted {
			t.Fatalf("Try of %q: got %+v and error %v", name, out, err)
		}
		want = append(want, name)
	}
	tx, err := newPool(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.LockTx(t.Context(), tx, "in a transaction"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := admin.New(b)
	list := func(f admin.Filter) (names []string, err error) {
		for r, failed := range c.List(t.Context(), f) {
			if err = failed; err == nil {
				names = append(names, r.Name)
			}
		}
		return names, err
	}
	slices.Sort(want)
	got, err := list(admin.Filter{})
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %d names and error %v, want %d", len(got), err, len(want))
	}
	if got, err := list(admin.Filter{NamePrefix: "job \xc3"}); err != nil || len(got) != 2 {
		t.Errorf("with a part of a rune: got %q and error %v, want two names", got, err)
	}
	if got, err := list(admin.Filter{NamePrefix: "job 0", Keys: 700}); !errors.Is(err, admin.ErrIncomplete) || len(got) != 350 {
		t.Errorf("of 700 rows: got %d names and error %v, want 350 and ErrIncomplete", len(got), err)
	}
}

// before calls do before each statement that ends a hold by force.
type before struct{ do func() }

func (b before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "forced_reason = $4") {
		b.do()
	}
	return ctx
}

func (before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A hold that the owner has again, after the look and before the statement, stays.
func TestForceUnlockOfAChangingHold(t *testing.T) {
	url := database(t)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	c := sqltest.Claim("job", 1)
	grant := func() {
		if out, err := b.Try(t.Context(), c); err != nil || !out.Granted {
			t.Errorf("Try: got %+v and error %v", out, err)
		}
	}
	grant()
	forcing := admin.New(pghold.New(newPool(t, url, func(config *pgxpool.Config) {
		config.ConnConfig.Tracer = before{func() {
			if err := b.Release(t.Context(), c); err != nil {
				t.Errorf("Release: %v", err)
			}
			grant()
		}}
	}), nil))
	if err := forcing.ForceUnlock(t.Context(), "job", admin.Holder{Owner: c.Owner}, "too late"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("ForceUnlock: got error %v, want ErrGone", err)
	}
	if answers, err := b.Renew(t.Context(), []driver.Claim{c}); err != nil || answers[0].Err != nil {
		t.Errorf("Renew: got %+v and error %v", answers, err)
	}
}

// Readers of the table see what is locked, and end nothing.
func TestAdminWithFewRights(t *testing.T) {
	url := database(t)
	own := newDB(t, url)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	if _, err := own.Exec("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT SELECT ON holdfast_locks TO reader"); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Try(t.Context(), sqltest.Claim("job", 1)); err != nil || !out.Granted {
		t.Fatalf("Try: got %+v and error %v", out, err)
	}
	reader := admin.New(pghold.New(newPool(t, strings.Replace(url, "test@", "reader@", 1)), nil))
	records, err := reader.Get(t.Context(), "job")
	if err != nil || records[0].Holders != 1 {
		t.Fatalf("got %+v and error %v", records, err)
	}
	if err := reader.ForceUnlock(t.Context(), "job", records[0].Holds[0].Holder, "why not"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("ForceUnlock: got error %v, want ErrRefused", err)
	}
	missing := admin.New(pghold.New(newPool(t, url), &pghold.Options{Table: "none"}))
	if _, err := missing.Get(t.Context(), "job"); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "CreateTable") {
		t.Errorf("Get without a table: got error %v, want what to do", err)
	}
}
