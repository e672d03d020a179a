package pgtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/cutofftest"
	"github.com/holdfast-go/holdfast/internal/e2e/lossytest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestLostAnswers has clients contend for a lock while a fifth of the answers is lost, at every
// isolation level but the usual one, behind a pooler, and in the table of ShedLock. Package
// storestest has the usual settings.
func TestLostAnswers(t *testing.T) {
	for _, isolation := range []string{"repeatable read", "pooler", "shedlock"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			at, layout := url, pghold.LeaseRows
			switch isolation {
			case "pooler":
				at, isolation = sqltest.PgBouncer(t, url), "serializable"
			case "shedlock":
				layout, isolation = pghold.ShedLock, "read committed"
			}
			if _, err := newDB(t, url).Exec("ALTER DATABASE " + quoted(url) + " SET default_transaction_isolation = '" + isolation + "'"); err != nil {
				t.Fatal(err)
			}
			sqltest.Prepared(t, pghold.New(newPool(t, url), &pghold.Options{Layout: layout}))
			var loss sqltest.Losses
			loss.Percent.Store(20)
			lossytest.Store{
				TTL: 3 * time.Second, Plain: layout == pghold.ShedLock, Mutex: (*holdfast.Locker).Mutex,
				Open: func(t *testing.T) driver.Backend {
					store := listening(t, url)
					store.Layout = layout
					return pghold.New(newPool(t, at, spoil(&loss)), store)
				},
				Lost: func() int { return int(loss.Lost.Load()) },
				Heal: func() { loss.Percent.Store(0) },
			}.Run(t)
		})
	}
}

// TestLateTry has a try arrive at the server only after the release that followed it,
// although the client had cut the connection and asked the server to cancel.
func TestLateTry(t *testing.T) {
	url := database(t)
	db := newDB(t, url)
	var late gate
	b := sqltest.Prepared(t, pghold.New(newPool(t, url, late.keep), nil))
	c := sqltest.Claim("job", 1)
	if err := b.Release(t.Context(), c); !errors.Is(err, driver.ErrGone) { // also looks at the table
		t.Fatalf("Release before all: got %v, want ErrGone", err)
	}
	first := sqltest.Claim("another job", 2) // prepares the statement of a try, so that the next is one message
	if out, err := b.Try(t.Context(), first); err != nil || !out.Granted {
		t.Fatalf("Try of a free name: got %+v, %v", out, err)
	}
	late.set(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Try(ctx, c); err == nil || errors.Is(err, driver.ErrNotExecuted) {
		t.Fatalf("Try without an answer: got %v, want an error that is not certain", err)
	}
	late.set(false)
	c.Indeterminate = true
	if err := b.Release(t.Context(), c); !errors.Is(err, driver.ErrGone) {
		t.Fatalf("Release: got %v, want ErrGone", err)
	}
	late.send()
	owner := func() (owner string) {
		_ = db.QueryRow("SELECT coalesce(owner, '') FROM holdfast_locks WHERE name = 'job'").Scan(&owner)
		return owner
	}
	await.Until(t, 900*time.Millisecond, "the late try holds", func() bool { return owner() == c.Owner })
	await.Until(t, 5*time.Second, "it is swept", func() bool { return owner() == "" })
}

// TestCutOff cuts holders off from the server that also listen for notifications.
func TestCutOff(t *testing.T) {
	server, _ := shared.Use(t)
	const ttl = 3 * time.Second
	cutofftest.Store{Addr: server.Addr(), TTL: ttl, Open: func(t *testing.T, addr string) *holdfast.Locker {
		at := strings.Replace(server.Name, server.Addr(), addr, 1)
		b := sqltest.Prepared(t, pghold.New(newPool(t, at), listening(t, at)))
		return holdfast.New(b, &holdfast.Options{TTL: ttl})
	}}.Run(t)
}

// TestListenCut cuts the link on which a client learns of releases: it notices, looks at
// rows meanwhile, and listens again.
func TestListenCut(t *testing.T) {
	url := database(t)
	db := newDB(t, url)
	b := sqltest.Prepared(t, pghold.New(newPool(t, url), listening(t, url)))
	ears := func() (n int) {
		_ = db.QueryRow("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ear' AND query LIKE 'LISTEN%'").Scan(&n)
		return n
	}
	holder, waiter := holdfast.New(b, nil), holdfast.New(b, nil)
	for range 3 {
		lock, err := holder.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		got := passes(t, waiter)
		await.Until(t, 5*time.Second, "a client listens", func() bool { return ears() == 1 })
		if _, err := db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ear'"); err != nil {
			t.Fatal(err)
		}
		await.Until(t, 5*time.Second, "it listens again", func() bool { return ears() == 1 })
		began := await.NewWatch(t)
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if late := began.Took(); late > 500*time.Millisecond {
			t.Errorf("the waiter had the lock %v after its release", late)
		}
		await.Until(t, 5*time.Second, "nobody listens any more", func() bool { return ears() == 0 })
	}
}
