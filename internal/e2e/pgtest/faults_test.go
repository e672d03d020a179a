package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// guarded is what a lock protects.
type guarded struct {
	plain  bool // there are no tokens
	inside atomic.Int32
	token  atomic.Uint64
	passes atomic.Int64
}

// pass says what is wrong while lock is held.
func (g *guarded) pass(lock *holdfast.Lock) error {
	defer g.inside.Add(-1)
	if n := g.inside.Add(1); n != 1 {
		return fmt.Errorf("%d holders", n)
	}
	if last := g.token.Swap(lock.Token()); !g.plain && lock.Token() <= last {
		return fmt.Errorf("token %d after %d", lock.Token(), last)
	}
	g.passes.Add(1)
	return lock.Err()
}

// TestLostAnswers has clients contend for a name while a fifth of all answers is lost,
// and a tenth of them gives up early, at every isolation level, behind a pooler, and in
// the table of ShedLock: there is one holder at a time, tokens rise, and nothing is left that keeps the name taken.
func TestLostAnswers(t *testing.T) {
	server, admin := start(t)
	for _, isolation := range []string{"read committed", "repeatable read", "serializable", "pooler", "shedlock"} {
		t.Run(isolation, func(t *testing.T) {
			url := database(t, server, admin)
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
			const ttl = 3 * time.Second
			g := guarded{plain: layout == pghold.ShedLock}
			var lockers []*holdfast.Locker
			for i := range 4 {
				store := listening(t, url)
				store.Layout = layout
				b := pghold.New(newPool(t, at, spoil(&loss)), store)
				opts := &holdfast.Options{TTL: ttl}
				if i > 0 {
					opts.Handoff.Max = -1 // else most never reach the store
				}
				lockers = append(lockers, holdfast.New(b, opts))
			}
			ctx := await.Context(t, 6*time.Second)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() { contend(ctx, t, lockers[i%4], &g) })
			}
			wg.Wait()
			if loss.Lost.Load() < 20 || g.passes.Load() < 20 {
				t.Fatalf("%d answers were lost and %d locks taken: nothing is tested", loss.Lost.Load(), g.passes.Load())
			}
			t.Logf("%d answers were lost, %d locks taken", loss.Lost.Load(), g.passes.Load())
			loss.Percent.Store(0)
			began := time.Now()
			lock, err := lockers[0].Lock(await.Context(t, ttl+2*time.Second), "job")
			if err != nil {
				t.Fatalf("after the faults the name stays taken: %v", err)
			}
			t.Logf("free after %v", time.Since(began).Round(time.Millisecond))
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			for _, l := range lockers {
				if err := l.Drain(await.Context(t, 20*time.Second)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// contend locks and unlocks until ctx ends, and gives up one time in ten after a moment.
func contend(ctx context.Context, t *testing.T, locker *holdfast.Locker, g *guarded) {
	for ctx.Err() == nil {
		limit, cancel := ctx, context.CancelFunc(func() {})
		if rand.IntN(10) == 0 {
			limit, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
		}
		lock, err := locker.Lock(limit, "job")
		cancel()
		if err != nil {
			continue // the context has ended, or the store gave no answer
		}
		if err := g.pass(lock); err != nil {
			t.Error(err)
		}
		_ = lock.Unlock() // an answer may be lost here too
	}
}

// TestLateTry has a try arrive at the server only after the release that followed it,
// although the client had cut the connection and asked the server to cancel.
func TestLateTry(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	db := newDB(t, url)
	var late gate
	b := sqltest.Prepared(t, pghold.New(newPool(t, url, late.keep), nil))
	c := driver.Claim{Name: "job", Client: "c", Seq: 1, Owner: "c:1", TTL: time.Minute, Count: 1, Tokens: 1}
	if err := b.Release(t.Context(), c); !errors.Is(err, driver.ErrGone) { // also looks at the table
		t.Fatalf("Release before all: got %v, want ErrGone", err)
	}
	first := claim("another job", 2) // prepares the statement of a try, so that the next is one message
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

// TestCutOff cuts holders off from the server, each in another phase of its lease: each is
// notified before somebody else has the name.
func TestCutOff(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
	waiters := holdfast.New(sqltest.Prepared(t, pghold.New(newPool(t, url), listening(t, url))), nil)
	const holders, ttl = 30, 1500 * time.Millisecond
	var wg sync.WaitGroup
	var least atomic.Int64
	least.Store(int64(time.Hour))
	for i := range holders {
		wg.Go(func() {
			cut := gate{whole: true}
			b := pghold.New(newPool(t, url, cut.keep), nil)
			name := fmt.Sprint("job ", i)
			lock, err := holdfast.New(b, &holdfast.Options{TTL: ttl}).Lock(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			held := lock.Context(t.Context())
			time.Sleep(time.Duration(i) * ttl / holders)
			cut.set(true)
			defer func() {
				cut.set(false)
				cut.send()
			}()
			told := make(chan time.Time, 1)
			go func() {
				<-held.Done()
				told <- time.Now()
			}()
			next, err := waiters.Lock(await.Context(t, 20*time.Second), name)
			granted := time.Now()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = next.Unlock() }()
			early := granted.Sub(<-told)
			least.Store(min(least.Load(), int64(early))) // near enough for the log
			if early <= 0 {
				t.Errorf("holder %d was told %v after the next grant", i, -early)
			}
		})
	}
	wg.Wait()
	t.Logf("%d holders were told at least %v before the next grant", holders, time.Duration(least.Load()).Round(time.Millisecond))
}

// TestListenCut cuts the link on which a client learns of releases: it notices, looks at
// rows meanwhile, and listens again.
func TestListenCut(t *testing.T) {
	server, admin := start(t)
	url := database(t, server, admin)
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
		began := time.Now()
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if late := time.Since(began); late > 500*time.Millisecond {
			t.Errorf("the waiter had the lock %v after its release", late)
		}
		await.Until(t, 5*time.Second, "nobody listens any more", func() bool { return ears() == 0 })
	}
}
