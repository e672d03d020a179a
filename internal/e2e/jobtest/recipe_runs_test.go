package jobtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sqltest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// The process that leads answers that it leads, and the other does when it leads. Both are alive.
func TestRecipeLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		elections := map[*elect.Election]context.CancelFunc{}
		var running sync.WaitGroup
		for range 2 {
			ctx, stop := context.WithCancel(t.Context())
			e := elect.New(holdfast.New(store, nil).Mutex("leader/billing"))
			elections[e] = stop
			running.Go(func() {
				_ = lead(ctx, e, func(ctx context.Context, token uint64) error { <-ctx.Done(); return nil })
			})
		}
		for range 2 {
			synctest.Wait()
			var leaders []*elect.Election
			for e := range elections {
				w := httptest.NewRecorder()
				leading(e)(w, nil)
				if w.Code == http.StatusOK {
					leaders = append(leaders, e)
				} else if w.Code != http.StatusServiceUnavailable {
					t.Errorf("status %d", w.Code)
				}
				if got := answer(alive(e)); got != http.StatusOK {
					t.Errorf("alive: got status %d, want 200", got)
				}
			}
			if len(leaders) != 1 {
				t.Fatalf("%d leaders", len(leaders))
			}
			elections[leaders[0]]()
			delete(elections, leaders[0])
		}
		running.Wait()
	})
}

// answer is the status with which a handler answers.
func answer(h http.HandlerFunc) int {
	w := httptest.NewRecorder()
	h(w, nil)
	return w.Code
}

// A leader whose function goes on after a loss is not alive until the function returns.
func TestRecipeAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		ctx, cancel := context.WithCancel(t.Context())
		e := elect.New(holdfast.New(store, nil).Mutex("leader/billing"))
		_ = lead(ctx, e, func(term context.Context, _ uint64) error {
			store.Drop("leader/billing")
			<-term.Done()
			if got := answer(alive(e)); got != http.StatusServiceUnavailable {
				t.Errorf("after the loss: got status %d, want 503", got)
			}
			cancel()
			return nil
		})
		if got := answer(alive(e)); got != http.StatusOK {
			t.Errorf("after the function: got status %d, want 200", got)
		}
	})
}

// startedOnce is a manager that cannot be started twice, as that of controller-runtime.
type startedOnce struct {
	started atomic.Bool
	starts  chan<- string
	name    string
}

func (m *startedOnce) Start(ctx context.Context) error {
	if m.started.Swap(true) {
		return errors.New("manager already started")
	}
	m.starts <- m.name
	<-ctx.Done()
	return nil
}

// Two processes run controllers, one at a time. An operator asks the leader to step down, and a
// follower gets each leader.
func TestRecipeControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		ctx, cancel := context.WithCancel(t.Context())
		starts, leaders := make(chan string, 10), make(chan string, 10)
		elections := map[string]*elect.Election{}
		var running sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			e := elect.New(holdfast.New(store, &holdfast.Options{Note: name}).Mutex("leader/billing"))
			elections[name] = e
			running.Go(func() {
				_ = control(ctx, e, func() (manager, error) { return &startedOnce{starts: starts, name: name}, nil })
			})
		}
		running.Go(func() { follow(ctx, store, func(leader string) { leaders <- leader }) })
		var led []string
		for range 4 {
			leader := <-starts
			led = append(led, leader)
			for got := <-leaders; got != leader; got = <-leaders {
				if got != "" {
					t.Errorf("the follower got %q, want %q", got, leader)
				}
			}
			if got := answer(stepDown(elections[leader])); got != http.StatusOK {
				t.Errorf("step down: got status %d, want 200", got)
			}
			time.Sleep(31 * time.Second) // the process is a candidate again
		}
		// The last leader has just stepped down, so the other process leads.
		if got := answer(stepDown(elections[led[3]])); got != http.StatusConflict {
			t.Errorf("step down of a process that does not lead: got status %d, want 409", got)
		}
		if !slices.Equal(led, []string{led[0], led[1], led[0], led[1]}) || led[0] == led[1] {
			t.Errorf("the leaders were %v, want each process in turn", led)
		}
		cancel()
		running.Wait()
	})
}

// A metric has the time of the last run, and not that of a run that was skipped.
func TestRecipeObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, outcomes, last := memhold.New(), []string{}, time.Time{}
		j := observed(reportJob(store, func(context.Context) error { return nil }),
			func(outcome string) { outcomes = append(outcomes, outcome) }, func(at time.Time) { last = at })
		began := time.Now()
		for range 2 { // the second is skipped because of AtLeast
			if err := j.RunContext(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if !slices.Equal(outcomes, []string{"ran", "skipped"}) || !last.Equal(began) {
			t.Errorf("got %q and the last run at %v, want a run at %v and one that was skipped", outcomes, last, began)
		}
	})
}

// cache is what the recipe of a cache needs of one.
type cache struct {
	value    *atomic.Pointer[string]
	expires  time.Time
	token    *atomic.Uint64
	computed *atomic.Int64
}

func (c cache) Get(context.Context, string) (string, time.Time, error) {
	if v := c.value.Load(); v != nil {
		return *v, c.expires, nil
	}
	return "", time.Time{}, nil
}

func (c cache) Compute(context.Context, string) (string, error) {
	time.Sleep(time.Second)
	return fmt.Sprint("price ", c.computed.Add(1)), nil
}

func (c cache) Set(_ context.Context, _, value string, token uint64) error {
	if token < c.token.Swap(token) {
		return fence.ErrStale
	}
	c.value.Store(&value)
	return nil
}

// Many callers of two processes have a price computed once, and again when it has expired.
func TestRecipeCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache{new(atomic.Pointer[string]), time.Now().Add(time.Minute), new(atomic.Uint64), new(atomic.Int64)}
		store := memhold.New()
		for i, allowed := range [][]string{{"price 1"}, {"price 1", "price 2"}} {
			var callers sync.WaitGroup
			for range 2 {
				l := holdfast.New(store, nil)
				for range 20 {
					callers.Go(func() {
						if got, err := price(t.Context(), l, c, "sku"); err != nil || !slices.Contains(allowed, got) {
							t.Errorf("round %d: %q, %v", i, got, err)
						}
					})
				}
			}
			callers.Wait()
			if n := c.computed.Load(); n != int64(i+1) {
				t.Errorf("round %d: computed %d times", i, n)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// Five pieces are sold once each, in a table that the migration of the page has made, and a
// holder that was paused sells none.
func TestRecipeStock(t *testing.T) {
	t.Parallel()
	url, db := sqltest.StartPostgreSQL(t)
	text, err := os.ReadFile("../../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	migration := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(text)[1]
	migrations, err := goose.NewProvider(goose.DialectPostgres, db, fstest.MapFS{"00001_fence.sql": {Data: migration}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := await.Context(t, time.Minute)
	if _, err := migrations.Up(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE stock (item text, pieces int); INSERT INTO stock VALUES ('lamp', 5)"); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store := memhold.New()
	var sold atomic.Int64
	var buyers sync.WaitGroup
	for range 20 {
		l := holdfast.New(store, nil)
		buyers.Go(func() {
			if err := sell(ctx, l, pool, "lamp"); err == nil {
				sold.Add(1)
			} else if err.Error() != "sold out" {
				t.Error(err)
			}
		})
	}
	buyers.Wait()
	if sold.Load() != 5 {
		t.Errorf("%d of 5 pieces sold", sold.Load())
	}
	later := must.Lock(t, holdfast.New(store, nil), "stock/lamp")
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if err := pghold.CheckFence(ctx, tx, later.Name(), later.Token()); err != nil {
		t.Error(err)
	}
	if err := pghold.CheckFence(ctx, tx, later.Name(), later.Token()-1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("an older token: %v", err)
	}
	must.Unlock(t, later)
}

// A document that somebody saves is refused with 423, at once and for a second.
func TestRecipeHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		saved := ""
		handler := http.NewServeMux()
		handler.Handle("PUT /{document}", edit(holdfast.New(store, nil), func(ctx context.Context, document string) error {
			saved = document
			return ctx.Err()
		}))
		put := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPut, "/plan", nil))
			return w
		}
		if w := put(t.Context()); w.Code != http.StatusOK || saved != "plan" {
			t.Errorf("status %d, saved %q", w.Code, saved)
		}
		lock := must.Lock(t, holdfast.New(store, nil), "document/plan")
		if w := put(t.Context()); w.Code != http.StatusLocked || w.Header().Get("Retry-After") != "1" {
			t.Errorf("held: status %d, %v", w.Code, w.Header())
		}
		must.Unlock(t, lock)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if w := put(gone); w.Code != http.StatusInternalServerError {
			t.Errorf("after the end of the request: status %d", w.Code)
		}
	})
}

// Transfers between the same accounts, in either direction, wait for each other, and all end.
func TestRecipeTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, inside := memhold.New(), 0
		var all sync.WaitGroup
		for i := range 6 {
			accounts := []string{"a", "b"}
			if i%2 == 1 {
				slices.Reverse(accounts)
			}
			all.Go(func() {
				err := transfer(t.Context(), holdfast.New(store, nil), accounts, func(context.Context) error {
					if inside++; inside > 1 {
						t.Errorf("%d transfers at the same time", inside)
					}
					time.Sleep(100 * time.Millisecond)
					inside--
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// The client is closed when all releases are confirmed.
func TestRecipeShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for range 3 {
			running.Go(func() {
				for {
					lock, err := l.Lock(ctx, "queue")
					if err != nil {
						return
					}
					time.Sleep(time.Second)
					must.Unlock(t, lock)
				}
			})
		}
		synctest.Wait()
		closed := false
		err := shutDown(stop, &running, l, func() {
			closed = true
			must.Unlock(t, must.Lock(t, holdfast.New(store, nil), "queue", holdfast.Wait(0)))
		})
		if err != nil || !closed {
			t.Errorf("%v, closed %v", err, closed)
		}
	})
}

// The lock of the recipe is the hash that Redisson has.
func TestRecipeBesideJava(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	err := besideJava(await.Context(t, time.Minute), "redis://"+server.Addr(), func(context.Context) error {
		fields := slices.Collect(maps.Keys(server.Map("HGETALL", "stock:42")))
		if len(fields) != 1 || !regexp.MustCompile(`^[0-9a-f-]{36}:\d+$`).MatchString(fields[0]) {
			t.Errorf("the lock is %v", fields)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The recipe excludes the programs of both layouts.
func TestRecipeBesideJavaAndPython(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx := await.Context(t, time.Minute)
	conn, err := rueidisconn.Open(ctx, "redis://"+server.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	java := holdfast.New(redishold.New(conn, nil), nil).Mutex("stock:42")
	python := holdfast.New(redishold.New(conn, &redishold.Options{Layout: redishold.Plain}), nil).Mutex("stock:42:python")
	err = besideJavaAndPython(ctx, conn, func(context.Context) error {
		for name, other := range map[string]*holdfast.Mutex{"Java": java, "Python": python} {
			if _, err := other.TryLock(ctx); !errors.Is(err, holdfast.ErrBusy) {
				t.Errorf("a program in %s got %v, want ErrBusy", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name, other := range map[string]*holdfast.Mutex{"Java": java, "Python": python} {
		lock, err := other.TryLock(ctx)
		if err != nil {
			t.Errorf("after the work a program in %s got %v", name, err)
			continue
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	}
}
