package pgtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// mustRefuse requires that a Lock fails at once, for good, and says what to do.
func mustRefuse(t *testing.T, b *pghold.Backend, says ...string) {
	t.Helper()
	began := await.NewWatch(t)
	_, err := holdfast.New(b, nil).Lock(await.Context(t, 10*time.Second), "job")
	if !errors.Is(err, driver.ErrRefused) || began.Took() > 5*time.Second {
		t.Errorf("Lock: got %v after %v, want ErrRefused at once", err, began.Took())
		return
	}
	for _, word := range says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("Lock: got %v, want that it says %q", err, word)
		}
	}
}

// TestSetup is about tables that are not there or not as they must be, and about rights.
func TestSetup(t *testing.T) {
	url := database(t)
	pool, db := newPool(t, url), newDB(t, url)
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	b := pghold.New(pool, &pghold.Options{Table: "ops.Locks"})
	exec("CREATE SCHEMA ops")
	mustRefuse(t, b, `CREATE TABLE IF NOT EXISTS "ops"."Locks"`, "CreateTable")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.LockTx(t.Context(), tx, "job"); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "CREATE TABLE") {
		t.Errorf("LockTx without a table: got %v, want what to do", err)
	}
	_ = tx.Rollback(t.Context())

	exec(strings.ReplaceAll(b.Schema(), "expires timestamptz", "expires timestamp"))
	mustRefuse(t, b, "expires", "timestamptz")
	exec(`ALTER TABLE ops."Locks" DROP COLUMN expires`)
	mustRefuse(t, b, "expires")
	exec(`DROP TABLE ops."Locks"`)
	failures := make(chan error, 8)
	for range cap(failures) {
		go func() { failures <- b.CreateTable(t.Context()) }()
	}
	for range cap(failures) {
		if err := <-failures; err != nil {
			t.Errorf("CreateTable at the same time as others: %v", err)
		}
	}
	lock, err := holdfast.New(b, nil).Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	exec(`DROP TABLE ops."Locks"`) // while it is in use
	mustRefuse(t, b, "CREATE TABLE")
	if err := b.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}

	exec(`DROP ROLE IF EXISTS poor; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA ops TO poor; GRANT SELECT ON ops."Locks" TO poor`)
	poor := pghold.New(newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.User = "poor" }), &pghold.Options{Table: "ops.Locks"})
	mustRefuse(t, poor, "permission denied")
	exec(`GRANT INSERT, UPDATE ON ops."Locks" TO poor`)
	lock, err = holdfast.New(poor, nil).Lock(t.Context(), "job")
	if err != nil {
		t.Fatalf("Lock with the rights that are said to be enough: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	long := sqltest.Prepared(t, pghold.New(pool, &pghold.Options{Table: "ops." + strings.Repeat("long", 20)}))
	if _, err := long.Try(t.Context(), sqltest.Claim("job", 1)); err != nil {
		t.Errorf("Try in a table with a long name: %v", err)
	}
	exec(`UPDATE ops."` + strings.Repeat("long", 20)[:63] + `" SET wanted = true`)
	if err := long.Release(t.Context(), sqltest.Claim("job", 1)); err != nil {
		t.Errorf("Release, with a notification, in a table with a long name: %v", err)
	}
	stranger := pghold.New(newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.User = "nobody" }), nil)
	mustRefuse(t, stranger, "nobody")
}

// TestClosedPool is about pools that the program itself closed.
func TestClosedPool(t *testing.T) {
	server, _ := start(t)
	pool, db := newPool(t, server), newDB(t, server)
	pool.Close()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]*pghold.Backend{"pgx": pghold.New(pool, nil), "database/sql": pghold.NewDB(db, nil)} {
		if _, err := b.Try(t.Context(), driver.Claim{Name: "job", Owner: "a:1", TTL: time.Second, Tokens: 1}); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Try over a closed pool of %s: got %v, want ErrClosed", what, err)
		}
	}
}

// mustWait tries a claim, which must be refused.
func mustWait(t *testing.T, b *pghold.Backend, c driver.Claim) driver.Outcome {
	t.Helper()
	out, err := b.Try(t.Context(), c)
	if err != nil || out.Granted {
		t.Fatalf("got %+v, error %v, want a refusal", out, err)
	}
	return out
}

// TestNotifiedNotPolled shows that a client that listens does not look at rows, that a
// release and a forced unlock wake it, and that a lock for which nobody waits sends no
// notification.
func TestNotifiedNotPolled(t *testing.T) {
	_, server := start(t)
	url := database(t)
	console := admin.New(pghold.New(newPool(t, url), nil))
	var looks tracer
	pool := newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &looks })
	b := sqltest.Prepared(t, pghold.New(pool, listening(t, url)))
	holder := holdfast.New(b, nil)
	ear, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer ear.Close(context.Background())
	if _, err := ear.Exec(t.Context(), "LISTEN holdfast_locks"); err != nil {
		t.Fatal(err)
	}
	const silence = 100 * time.Millisecond
	heard := func(within time.Duration) (names []string) {
		for ; ; within = silence {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			n, err := ear.WaitForNotification(ctx)
			cancel()
			if err != nil {
				return names
			}
			names = append(names, n.Payload)
		}
	}
	alone, err := holder.Lock(t.Context(), "alone")
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Unlock(); err != nil {
		t.Fatal(err)
	}
	if names := heard(silence); len(names) != 0 {
		t.Errorf("a release for which nobody waits: got notifications %q, want none", names)
	}
	for i := range uint64(3) {
		held, next := sqltest.Claim(`odd \ name`, 2*i+1), sqltest.Claim(`odd \ name`, 2*i+2)
		if out, err := b.Try(t.Context(), held); err != nil || !out.Granted {
			t.Fatalf("got %+v, error %v, want a grant", out, err)
		}
		out := mustWait(t, b, next)
		w := b.Waiter(next)
		defer w.Close()
		sleeps := func(d time.Duration) bool { // it asks once more when it listens
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if _, err := w.Wait(ctx, out); err == nil {
				out = mustWait(t, b, next)
				return false
			}
			return true
		}
		await.Until(t, 5*time.Second, "a client listens, and the waiter sleeps", func() bool {
			var n int
			_ = server.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear' AND query LIKE 'LISTEN%'").Scan(&n)
			return sleeps(300*time.Millisecond) && n == 1
		})
		before := looks.n.Load()
		if !sleeps(300 * time.Millisecond) {
			t.Error("a waiter woke up while nothing changed")
		}
		end := func() error { return b.Release(t.Context(), held) }
		if i == 2 {
			end = func() error {
				return console.ForceUnlock(t.Context(), held.Name, admin.Holder{Owner: held.Owner}, "why")
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Wait(await.Context(t, 5*time.Second), out); err != nil { // it asks by itself never
			t.Errorf("a release for which somebody waits: %v", err)
		}
		if n := looks.n.Load() - before; n > 0 {
			t.Errorf("%d looks at rows, want none", n)
		}
		if out, err := b.Try(t.Context(), next); err != nil || !out.Granted {
			t.Errorf("a waiter that was woken: got %+v, error %v, want a grant", out, err)
		}
		if names := heard(5 * time.Second); len(names) == 0 || !strings.HasSuffix(names[0], "\n"+`odd \5c name`) {
			t.Errorf("a release for which somebody waits: got notifications %q, want who is next and the name", names)
		}
		if err := b.Release(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the first may still tell those who wanted it
		heard(silence)
		lock, err := holder.Lock(t.Context(), `odd \ name`)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	if names := heard(silence); len(names) != 0 {
		t.Errorf("a release for which nobody waits any more: got notifications %q, want none", names)
	}
}

// TestListenThroughAPooler is about Options.Listen where it leads to a pooler: it hears
// nothing, so rows are looked at, and the log says so once.
func TestListenThroughAPooler(t *testing.T) {
	url := database(t)
	pooled := sqltest.PgBouncer(t, url)
	var log bytes.Buffer
	opts := listening(t, pooled)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b := sqltest.Prepared(t, pghold.New(newPool(t, pooled), opts))
	holder, waiter := holdfast.New(b, nil), holdfast.New(b, nil)
	for range 3 {
		lock, err := holder.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		got := passes(t, waiter)
		time.Sleep(300 * time.Millisecond) // it has begun to wait
		began := await.NewWatch(t)
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if took := began.Took(); took > 400*time.Millisecond {
			t.Errorf("handed over in %v", took)
		}
	}
	if err := b.Drain(await.Context(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "pooler"); n != 1 {
		t.Errorf("the log says %d times that Listen leads to a pooler, want once:\n%s", n, log.String())
	}
}
