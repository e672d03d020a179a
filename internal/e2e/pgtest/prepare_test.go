package pgtest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// prepared counts what statements on the table of locks are sent, and which are prepared.
type prepared struct{ sent, prepared atomic.Int64 }

func (p *prepared) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "holdfast_locks") {
		p.sent.Add(1)
	}
	return ctx
}

func (*prepared) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (p *prepared) TracePrepareStart(ctx context.Context, _ *pgx.Conn, q pgx.TracePrepareStartData) context.Context {
	if strings.Contains(q.SQL, "holdfast_locks") {
		p.prepared.Add(1)
	}
	return ctx
}

func (*prepared) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TestPrepared is about when statements are prepared: where the pool is made for it and
// leads to the server itself, and until somebody discards them.
func TestPrepared(t *testing.T) {
	for name, test := range map[string]struct {
		pooler, want bool
		change       func(*pgxpool.Config)
	}{
		"server":      {want: true},
		"pooler":      {pooler: true},
		"not wanted":  {change: func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }},
		"no capacity": {change: func(c *pgxpool.Config) { c.ConnConfig.StatementCacheCapacity = 0 }},
		"discarded": {want: true, change: func(c *pgxpool.Config) {
			c.AfterRelease = func(conn *pgx.Conn) bool {
				_, err := conn.Exec(context.Background(), "DISCARD ALL")
				return err == nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			sqltest.Prepared(t, pghold.New(newPool(t, url), nil))
			if test.pooler {
				url = sqltest.PgBouncer(t, url)
			}
			var seen prepared
			l := holdfast.New(pghold.New(newPool(t, url, func(c *pgxpool.Config) {
				c.ConnConfig.Tracer = &seen
				if test.change != nil {
					test.change(c)
				}
			}), nil), nil)
			for range 20 {
				lock, err := l.Lock(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				if err := lock.Unlock(); err != nil {
					t.Fatal(err)
				}
			}
			n := seen.prepared.Load()
			if most := int64(4 * 2); (n > 0) != test.want || n > most {
				t.Errorf("%d statements were prepared, want some: %v, and %d at most", n, test.want, most)
			}
		})
	}
}

// TestStatementsOfATurn has two processes take turns: each needs a release, a try that gets
// a place in the queue, and a try that is granted.
func TestStatementsOfATurn(t *testing.T) {
	url := database(t)
	var seen prepared
	var turns atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		pool := newPool(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &seen })
		l := holdfast.New(sqltest.Prepared(t, pghold.New(pool, listening(t, url))), nil)
		wg.Go(func() {
			for ctx.Err() == nil {
				err := l.Mutex("job").Do(t.Context(), func(context.Context, *holdfast.Lock) error {
					time.Sleep(20 * time.Millisecond) // so that the other one waits, and listens
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				turns.Add(1)
			}
		})
	}
	await.Until(t, 10*time.Second, "both listen", func() bool { return turns.Load() >= 10 })
	sent, before := seen.sent.Load(), turns.Load()
	await.Until(t, 20*time.Second, "50 turns", func() bool { return turns.Load() >= before+50 })
	each := float64(seen.sent.Load()-sent) / float64(turns.Load()-before)
	stop()
	wg.Wait()
	if each > 4 {
		t.Errorf("%.2f statements for each turn, want 3", each)
	}
	t.Logf("%.2f statements for each turn", each)
}

// TestPlaceDoesNotWait has commits wait for a standby that is not there: a try that takes a
// place in the queue does not wait for it, and one that would be granted does.
func TestPlaceDoesNotWait(t *testing.T) {
	url, admin := sqltest.StartPostgreSQL(t, quiet()...)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), listening(t, url)))
	if out, err := b.Try(t.Context(), sqltest.Claim("job", 1)); err != nil || !out.Granted {
		t.Fatalf("Try of a free name: got %+v, %v", out, err)
	}
	if out, err := b.Try(t.Context(), sqltest.Claim("freed", 6)); err != nil || !out.Granted {
		t.Fatalf("Try of a free name: got %+v, %v", out, err)
	}
	if err := b.Release(t.Context(), sqltest.Claim("freed", 6)); err != nil {
		t.Fatal(err)
	}
	standby := func(names string) {
		t.Helper()
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := admin.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		await.Until(t, 10*time.Second, "the server has read its settings", func() bool {
			var is string
			return admin.QueryRow("SHOW synchronous_standby_names").Scan(&is) == nil && is == names
		})
	}
	standby("nobody")
	await.Until(t, 10*time.Second, "commits wait for the standby", func() bool { // the checkpointer reads its settings later than sessions
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := admin.ExecContext(short, "SELECT pg_logical_emit_message(true, 'probe', '')")
		return err != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	passing := sqltest.Claim("job", 3)
	passing.NoQueue = true
	for what, c := range map[string]driver.Claim{"a place": sqltest.Claim("job", 2), "no place": passing} {
		for range 2 { // the second changes nothing
			if out, err := b.Try(ctx, c); err != nil || out.Granted || out.Queued == c.NoQueue {
				t.Errorf("Try of a held name: got %+v, %v, want %s in the queue", out, err, what)
			}
		}
	}
	for what, c := range map[string]driver.Claim{"a name": sqltest.Claim("other", 4), "a name that was held": sqltest.Claim("freed", 5), "the name that it holds": sqltest.Claim("job", 1)} {
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		if out, err := b.Try(short, c); err == nil {
			t.Errorf("Try that gets %s: got %+v, want that it waits for the standby", what, out)
		}
		cancel()
	}
	standby("")
}
