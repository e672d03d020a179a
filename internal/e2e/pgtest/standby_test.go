package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/pghold"
)

// pair is a primary with a standby that follows it over a link.
type pair struct {
	primary, standby *sqltest.Server
	link             *faultproxy.Proxy
	before, after    *holdfast.Locker // of the primary and, once it is promoted, of the standby
}

// startPair starts both. The table is on both.
func startPair(t *testing.T, ttl time.Duration) *pair {
	t.Helper()
	p := &pair{primary: sqltest.Start(t, sqltest.RunPostgreSQL)}
	b := sqltest.Prepared(t, pghold.New(newPool(t, p.primary.Name), nil))
	link, err := faultproxy.RunRaw(p.primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	p.link = link
	p.standby = p.primary.Standby(t, link.Addr())
	p.before = holdfast.New(b, &holdfast.Options{TTL: ttl})
	p.after = holdfast.New(pghold.New(newPool(t, p.standby.Name), nil), &holdfast.Options{TTL: ttl})
	return p
}

// caughtUp waits until the standby has what the primary has.
func (p *pair) caughtUp(t *testing.T) {
	t.Helper()
	db := newDB(t, p.primary.Name)
	await.Until(t, 10*time.Second, "the standby has all", func() bool {
		var has bool
		return db.QueryRow("SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication").Scan(&has) == nil && has
	})
}

// exec runs a statement at the primary.
func (p *pair) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := newDB(t, p.primary.Name).Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// failOver kills the primary and promotes the standby.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	began := time.Now()
	p.primary.Kill()
	if err := p.standby.Promote(); err != nil {
		t.Fatal(err)
	}
	t.Logf("promoted after %v", time.Since(began).Round(time.Millisecond))
}

// take takes the lock "job", whatever becomes of it afterwards.
func take(t *testing.T, l *holdfast.Locker) *holdfast.Lock {
	t.Helper()
	lock, err := l.Lock(await.Context(t, 20*time.Second), "job")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

// TestPromotionOfAnAsynchronousStandby promotes a standby that has not received the last
// commits. A lock that it has is held on. One that it has not is granted again while its
// holder considers it held, for as long as its lease at most; the token of the second holder
// is larger if the clock of the standby has passed the first one's, and smaller if not.
func TestPromotionOfAnAsynchronousStandby(t *testing.T) {
	const ttl = 6 * time.Second
	t.Run("received", func(t *testing.T) {
		p := startPair(t, ttl)
		lock := take(t, p.before)
		p.caughtUp(t)
		p.failOver(t)
		if _, err := p.after.TryLock(t.Context(), "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("TryLock after the promotion: got error %v, want ErrBusy", err)
		}
		next := take(t, p.after)
		if next.Token() <= lock.Token() || lock.Err() == nil {
			t.Errorf("token %d after %d, and the first holder has error %v, want a larger one and a loss", next.Token(), lock.Token(), lock.Err())
		}
	})
	for what, test := range map[string]struct {
		ahead string // in microseconds, of the primary's clock
		rises bool
	}{
		"not received":                     {"0", true},
		"not received, from a clock ahead": {"60000000", false},
	} {
		t.Run(what, func(t *testing.T) {
			p := startPair(t, ttl)
			former := take(t, p.before)
			if err := former.Unlock(); err != nil {
				t.Fatal(err)
			}
			p.caughtUp(t)
			p.link.Blackhole(true)
			// A token is the clock in microseconds, or the last one and one: this stands for a clock.
			p.exec(t, "UPDATE holdfast_locks SET token = token + "+test.ahead)
			lock := take(t, p.before)
			p.failOver(t)
			next := take(t, p.after)
			if lock.Err() != nil {
				t.Fatalf("got error %v, want that the first holder cannot know", lock.Err())
			}
			t.Logf("two hold, the first for another %v; tokens %d and %d: %+d", lock.Remaining().Round(time.Millisecond), lock.Token(), next.Token(), int64(next.Token()-lock.Token()))
			if rises := next.Token() > lock.Token(); rises != test.rises {
				t.Errorf("token %d after %d, want that it rises: %v", next.Token(), lock.Token(), test.rises)
			}
			if next.Token() <= former.Token() {
				t.Errorf("token %d after %d, which the standby had", next.Token(), former.Token())
			}
			select {
			case <-lock.Context(t.Context()).Done():
			case <-time.After(ttl):
				t.Error("the first holder was not told within its lease")
			}
		})
	}
}

// TestPromotionOfASynchronousStandby does the same where commits wait for the standby: what
// it has not received was never granted, and no lock has two holders.
func TestPromotionOfASynchronousStandby(t *testing.T) {
	const ttl = 4 * time.Second
	synchronous := func(t *testing.T) *pair {
		p := startPair(t, ttl)
		p.exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
		p.exec(t, "SELECT pg_reload_conf()")
		db := newDB(t, p.primary.Name)
		await.Until(t, 10*time.Second, "the standby is synchronous", func() bool {
			var state string
			return db.QueryRow("SELECT sync_state FROM pg_stat_replication").Scan(&state) == nil && state == "sync"
		})
		return p
	}
	t.Run("held", func(t *testing.T) {
		p := synchronous(t)
		lock := take(t, p.before)
		p.failOver(t) // at once: what was granted is there
		if _, err := p.after.TryLock(t.Context(), "job"); !errors.Is(err, holdfast.ErrBusy) {
			t.Fatalf("TryLock after the promotion: got error %v, want ErrBusy", err)
		}
		next := take(t, p.after)
		if lock.Err() == nil || next.Token() <= lock.Token() {
			t.Errorf("token %d after %d, and the first holder has error %v, want a larger one and a loss", next.Token(), lock.Token(), lock.Err())
		}
	})
	t.Run("not received", func(t *testing.T) {
		p := synchronous(t)
		former := take(t, p.before)
		if err := former.Unlock(); err != nil {
			t.Fatal(err)
		}
		p.link.Blackhole(true)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		if lock, err := p.before.Lock(ctx, "job"); err == nil {
			t.Fatalf("granted %v, although the standby has not received it", lock)
		}
		p.failOver(t)
		if next := take(t, p.after); next.Token() <= former.Token() {
			t.Errorf("token %d after %d", next.Token(), former.Token())
		}
	})
}
