package migratingtest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/goredisconn"
)

type redsyncShop struct {
	locks *redsync.Redsync
	stock stock
}

func newRedsyncShop(rdb *redis.Client, s stock) *redsyncShop {
	return &redsyncShop{redsync.New(goredis.NewPool(rdb)), s}
}

func (s *redsyncShop) sell(w http.ResponseWriter, r *http.Request) {
	item := r.PathValue("item")
	mutex := s.locks.NewMutex("stock:"+item, redsync.WithExpiry(10*time.Second))
	if err := mutex.LockContext(r.Context()); err != nil { // held by another, or Redis is down
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	defer mutex.Unlock()
	if err := s.stock.takeOne(r.Context(), item); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

type shop struct {
	locker *holdfast.Locker
	stock  stock
}

func newShop(rdb *redis.Client, s stock) *shop {
	store := redishold.New(goredisconn.New(rdb), &redishold.Options{
		Layout: redishold.Plain,        // the layout of redsync
		Poll:   100 * time.Millisecond, // redsync sends no message when it releases
	})
	return &shop{holdfast.New(store, &holdfast.Options{TTL: 10 * time.Second}), s}
}

func (s *shop) sell(w http.ResponseWriter, r *http.Request) {
	item, sold := r.PathValue("item"), false
	err := s.locker.Mutex("stock:"+item).Do(r.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
		err := s.stock.takeOne(ctx, item) // ctx ends with the request, and when the lock is lost
		sold = err == nil
		return err
	}, holdfast.Wait(5*time.Second))
	switch {
	case sold: // even if err says that the lock was lost after that
	case errors.Is(err, holdfast.ErrBusy):
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

func (s *shop) sellOne(ctx context.Context, item string) error {
	lock, err := s.locker.Lock(ctx, "stock:"+item)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return s.stock.takeOne(lock.Context(ctx), item)
}

func newRedlock(servers []*redis.Client) (*holdfast.Locker, error) {
	var members []driver.Backend
	for _, rdb := range servers {
		opts := &redishold.Options{Layout: redishold.Plain, Poll: 100 * time.Millisecond}
		members = append(members, redishold.New(goredisconn.New(rdb), opts))
	}
	const ttl = 10 * time.Second // also redsync's expiry
	store, err := quorum.New(members, &quorum.Options{MaxTTL: ttl})
	if err != nil {
		return nil, err
	}
	return holdfast.New(store, &holdfast.Options{TTL: ttl}), nil
}

// stock is the code that a move does not change.
type stock interface {
	takeOne(ctx context.Context, item string) error
}

// work is a stock that does something else.
type work func(context.Context) error

func (w work) takeOne(ctx context.Context, _ string) error { return w(ctx) }

// requested returns the error of a handler that sells an item.
func requested(ctx context.Context, sell http.HandlerFunc) error {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/sell/42", nil)
	r.SetPathValue("item", "42")
	w := httptest.NewRecorder()
	if sell(w, r); w.Code != http.StatusOK {
		return errors.New(w.Body.String())
	}
	return nil
}

// client returns a client of a server that t closes.
func client(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestFromRedsync(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	before, after := newRedsyncShop(client(t, server), nil), newShop(client(t, server), nil)
	t.Cleanup(func() { must.Drain(t, after.locker) })
	rollover.Test(t,
		func(ctx context.Context, do func(context.Context) error) error {
			return requested(ctx, (&redsyncShop{before.locks, work(do)}).sell)
		},
		func(ctx context.Context, do func(context.Context) error) error {
			return requested(ctx, (&shop{after.locker, work(do)}).sell)
		},
	)
}

// A customer whose item is sold gets that answer, also if the lock was lost before its release.
func TestSoldAlthoughTheLockIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	after := newShop(client(t, server), work(func(context.Context) error {
		server.Do("DEL", "stock:42")
		return nil
	}))
	t.Cleanup(func() { must.Drain(t, after.locker) })
	if err := requested(t.Context(), after.sell); err != nil {
		t.Error(err)
	}
	if err := after.sellOne(t.Context(), "42"); err != nil {
		t.Error(err)
	}
}

func TestFromRedsyncOverSeveralPools(t *testing.T) {
	t.Parallel()
	var pools []syncredis.Pool
	var servers []*redis.Client
	for range 3 {
		server := redistest.Start(t)
		pools = append(pools, goredis.NewPool(client(t, server)))
		servers = append(servers, client(t, server))
	}
	locker, err := newRedlock(servers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must.Drain(t, locker) })
	must.Unlock(t, must.Lock(t, locker, "other")) // servers that have just started do not vote yet
	locks := redsync.New(pools...)
	rollover.Test(t,
		func(ctx context.Context, do func(context.Context) error) error {
			return requested(ctx, (&redsyncShop{locks, work(do)}).sell)
		},
		func(ctx context.Context, do func(context.Context) error) error {
			return (&shop{locker, work(do)}).sellOne(ctx, "42")
		},
	)
}
