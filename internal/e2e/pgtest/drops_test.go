package pgtest

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/pghold"
)

// TestProxyDropsConnections has something between client and server that breaks all
// connections ten times a second, or loses answers with them.
func TestProxyDropsConnections(t *testing.T) {
	server, _ := shared.Use(t)
	const ttl = 3 * time.Second
	b := sqltest.Prepared(t, pghold.New(newPool(t, server.Name), nil))
	server.KeepsItsLockThroughDrops(t, 3*ttl, func(t *testing.T, addr string) *holdfast.Locker {
		u, err := url.Parse(server.Name)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = addr
		return holdfast.New(sqltest.Prepared(t, pghold.New(newPool(t, u.String()), nil)), &holdfast.Options{TTL: ttl})
	}, holdfast.New(b, nil))
}

// TestPoolerRestarts has a pooler that is killed and started again, once a second.
func TestPoolerRestarts(t *testing.T) {
	at := database(t)
	pooler, pooled := sqltest.StartPgBouncer(t, at)
	const ttl = 3 * time.Second
	store := listening(t, at) // waiters are woken by the server itself
	holder := holdfast.New(sqltest.Prepared(t, pghold.New(newPool(t, pooled), store)), &holdfast.Options{TTL: ttl})
	other := holdfast.New(pghold.New(newPool(t, at), store), &holdfast.Options{TTL: ttl})
	calls, restarts := 0, 0
	sqltest.KeepsItsLock(t, holder, other, 2*ttl, func() {
		if calls++; calls%10 != 5 {
			return
		}
		pooler.Kill()
		if err := pooler.Restart(); err != nil {
			t.Fatal(err)
		}
		restarts++
	}, func() {})
	t.Logf("the pooler was started again %d times", restarts)
	if restarts < 3 {
		t.Error("that is too seldom: nothing is tested")
	}
}

// TestPoolerWithoutItsServer has a pooler whose server is down for seconds. The pooler answers
// each call with an error. That is an outage, not a refusal: a waiter goes on, and TryLock says
// that nothing was executed.
func TestPoolerWithoutItsServer(t *testing.T) {
	server := sqltest.Start(t, sqltest.RunPostgreSQL)
	_, pooled := sqltest.StartPgBouncer(t, server.Name)
	open := func() *holdfast.Locker {
		return holdfast.New(sqltest.Prepared(t, pghold.New(newPool(t, pooled), nil)), nil)
	}
	holder, waiter, newcomer := open(), open(), open()
	held := must.Lock(t, holder, "job")
	got := make(chan error, 1)
	go func() { // it may ask first when the server is down: that must be the same
		lock, err := waiter.Lock(t.Context(), "job")
		if err == nil {
			err = lock.Unlock()
		}
		got <- err
	}()
	server.Kill()
	_, err := newcomer.TryLock(t.Context(), "other")
	if !errors.Is(err, driver.ErrNotExecuted) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("TryLock: got %v, want ErrNotExecuted, and no refusal", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	_ = held.Unlock() // the pooler may not have found its server yet: then the release goes on
	select {
	case err := <-got:
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the waiter got nothing within a minute")
	}
	for _, l := range []*holdfast.Locker{holder, waiter, newcomer} {
		must.Drain(t, l)
	}
}

// TestServerClosesIdleConnections has the server close connections after half a second,
// which is less than between two renewals.
func TestServerClosesIdleConnections(t *testing.T) {
	_, admin := start(t)
	at := database(t)
	if _, err := admin.Exec("ALTER DATABASE " + quoted(at) + " SET idle_session_timeout = '500ms'"); err != nil {
		t.Fatal(err)
	}
	const ttl = 3 * time.Second
	pool := newPool(t, at)
	holder := holdfast.New(sqltest.Prepared(t, pghold.New(pool, nil)), &holdfast.Options{TTL: ttl})
	other := holdfast.New(pghold.New(newPool(t, at), nil), &holdfast.Options{TTL: ttl})
	before := pool.Stat().NewConnsCount()
	sqltest.KeepsItsLock(t, holder, other, 2*ttl, func() {}, func() {})
	n := pool.Stat().NewConnsCount() - before
	t.Logf("%d connections were made in place of those that the server closed", n)
	if n < 3 {
		t.Errorf("%d connections were made: nothing is tested", n)
	}
}
