package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/pghold"
)

func TestAdmin(t *testing.T) {
	server, db := start(t)
	for name, open := range map[string]func(t *testing.T, url string) *pghold.Backend{
		"listening": func(t *testing.T, url string) *pghold.Backend { return pghold.New(newPool(t, url), listening(t, url)) },
		"polling":   func(t *testing.T, url string) *pghold.Backend { return pghold.NewDB(newDB(t, url), nil) },
		"serializable": func(t *testing.T, url string) *pghold.Backend {
			return pghold.New(newPool(t, url+"&default_transaction_isolation=serializable"), nil)
		},
		"pooler": func(t *testing.T, url string) *pghold.Backend {
			return pghold.New(newPool(t, sqltest.PgBouncer(t, url)), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, database(t, server, db))
			admintest.Suite{Open: func(*testing.T) admintest.Store { return b }}.Run(t)
			sqltest.Prepared(t, b)
		})
	}
}

// A list has the names that are taken, whatever bytes they have, in the order in which
// the index keeps them, and not those of transactions.
func TestList(t *testing.T) {
	server, db := start(t)
	url := database(t, server, db)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	var want []string
	batch := make([]driver.Claim, 0, 1200)
	for i := range cap(batch) {
		batch = append(batch, claim(fmt.Sprintf("job %04d", i), uint64(i+1)))
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
		if out, err := b.Try(t.Context(), claim(name, uint64(2000+i))); err != nil || !out.Granted {
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

// A waiter goes on as soon as the hold is ended by force, and the holder hears
// why at its next renewal.
func TestForceUnlock(t *testing.T) {
	server, db := start(t)
	url := database(t, server, db)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), listening(t, url)))
	holder, waiter := holdfast.New(b, &holdfast.Options{TTL: 3 * time.Second}), holdfast.New(b, nil)
	lock := must.Lock(t, holder, "job")
	got := passes(t, waiter)
	await.Until(t, 5*time.Second, "a client listens", func() bool {
		var n int
		_ = db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear' AND query LIKE 'LISTEN%'").Scan(&n)
		return n == 1
	})
	time.Sleep(300 * time.Millisecond) // it asks once more, and then sleeps
	c := admin.New(b)
	records, err := c.Get(t.Context(), "job")
	if err != nil || records[0].Holders != 1 || records[0].Holds[0].Token != lock.Token() {
		t.Fatalf("got %+v and error %v, want the hold with token %d", records, err, lock.Token())
	}
	began := await.NewWatch(t)
	if err := c.ForceUnlock(t.Context(), "job", records[0].Holds[0].Holder, "the runner is gone"); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if took := began.Took(); took > 300*time.Millisecond { // it would ask by itself after 450 ms at least
		t.Errorf("the next one had the lock after %v", took)
	}
	select {
	case <-lock.Context(t.Context()).Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the holder has not heard of it within its lease")
	}
	var lost *holdfast.LostError
	if err := lock.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced || !strings.Contains(err.Error(), "the runner is gone") {
		t.Errorf("got error %v, want that it was forced, and why", err)
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
	server, db := start(t)
	url := database(t, server, db)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	c := claim("job", 1)
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
	server, db := start(t)
	url := database(t, server, db)
	own := newDB(t, url)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
	if _, err := own.Exec("CREATE ROLE reader LOGIN; GRANT SELECT ON holdfast_locks TO reader"); err != nil {
		t.Fatal(err)
	}
	if out, err := b.Try(t.Context(), claim("job", 1)); err != nil || !out.Granted {
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
