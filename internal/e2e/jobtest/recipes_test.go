package jobtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// What follows is in docs/recipes.md, see TestRecipesAreThoseOfThePage.

func reportJob(store driver.Backend, makeReport func(context.Context) error) *job.Job {
	locker := holdfast.New(store, &holdfast.Options{TTL: 4 * time.Second}) // for jobs alone
	work := func(ctx context.Context, lock *holdfast.Lock) error {
		return makeReport(ctx) // ctx ends when the lock is lost
	}
	return job.New(locker.Mutex("report"), work, holdfast.AtLeast(1500*time.Millisecond))
}

func withCron(ctx context.Context, report *job.Job) error {
	c := cron.New(cron.WithSeconds())
	if _, err := c.AddJob("*/2 * * * * *", report); err != nil {
		return err
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done() // waits for a run that has begun
	return nil
}

func withGocron(ctx context.Context, report *job.Job) error {
	s, err := gocron.NewScheduler()
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.CronJob("*/2 * * * * *", true), gocron.NewTask(report.RunContext))
	if err != nil {
		return errors.Join(err, s.Shutdown())
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown() // ends the context of a run that has begun, and waits 10 s for it
}

func withLoop(ctx context.Context, report *job.Job) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = report.RunContext(ctx) // the job has logged an error
		case <-ctx.Done():
			return nil
		}
	}
}

func lead(ctx context.Context, e *elect.Election, work func(ctx context.Context, token uint64) error) error {
	return e.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
		return work(term, lock.Token()) // until term ends
	})
}

func leading(e *elect.Election) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Leading(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func alive(e *elect.Election) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Leading(); errors.Is(err, holdfast.ErrLost) { // the lock is lost, and the function goes on
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func follow(ctx context.Context, store driver.Backend, use func(leader string)) {
	for leader, err := range elect.Watch(ctx, admin.New(store), "leader/billing") {
		if err == nil {
			use(leader.Note) // "" while nobody leads
		}
	}
}

func stepDown(e *elect.Election) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := e.StepDown(30 * time.Second); err != nil {
			http.Error(w, err.Error(), http.StatusConflict) // this process does not lead
		}
	}
}

func control(ctx context.Context, e *elect.Election, newManager func() (manager, error)) error {
	return e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
		m, err := newManager() // for each term, because a manager cannot be started twice
		if err != nil {
			return err
		}
		return m.Start(term) // returns when the term ends, and its controllers have stopped
	})
}

// manager is a manager.Manager of controller-runtime.
type manager interface {
	Start(ctx context.Context) error
}

func observed(j *job.Job, runs func(outcome string), lastRun func(time.Time)) *job.Job {
	j.Observe = func(_ context.Context, r job.Result) {
		runs(string(r.Outcome)) // ran, skipped or failed
		if r.Outcome == job.Ran {
			lastRun(r.Began)
		}
	}
	return j
}

func price(ctx context.Context, locker *holdfast.Locker, c cache, sku string) (string, error) {
	get := func(ctx context.Context) (string, once.State, error) {
		value, expires, err := c.Get(ctx, sku)
		switch {
		case err != nil || value == "":
			return "", once.Missing, err
		case time.Now().After(expires):
			return value, once.Stale, nil
		default:
			return value, once.Fresh, nil
		}
	}
	fill := func(ctx context.Context, lock *holdfast.Lock) (string, error) {
		value, err := c.Compute(ctx, sku)
		if err != nil {
			return "", err
		}
		return value, c.Set(ctx, sku, value, lock.Token()) // which refuses a smaller token
	}
	return once.Do(ctx, locker.Mutex("price/"+sku), get, fill)
}

func sell(ctx context.Context, locker *holdfast.Locker, pool *pgxpool.Pool, item string) error {
	return locker.Mutex("stock/"+item).Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := pghold.CheckFence(ctx, tx, lock.Name(), lock.Token()); err != nil {
				return err // fence.ErrStale: a later holder has sold since
			}
			tag, err := tx.Exec(ctx, "UPDATE stock SET pieces = pieces - 1 WHERE item = $1 AND pieces > 0", item)
			if err == nil && tag.RowsAffected() == 0 {
				return errors.New("sold out")
			}
			return err
		})
	})
}

func edit(locker *holdfast.Locker, save func(ctx context.Context, document string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		document := r.PathValue("document")
		err := locker.Mutex("document/"+document).Do(r.Context(), func(ctx context.Context, _ *holdfast.Lock) error {
			return save(ctx, document) // ctx ends with the request, and when the lock is lost
		}, holdfast.Wait(200*time.Millisecond))
		switch {
		case errors.Is(err, holdfast.ErrBusy):
			w.Header().Set("Retry-After", "1") // not BusyError.Remaining: the work may end before the lease
			http.Error(w, "somebody else saves this document", http.StatusLocked)
		case err != nil:
			http.Error(w, "the document may not be saved", http.StatusInternalServerError)
		}
	}
}

func transfer(ctx context.Context, locker *holdfast.Locker, accounts []string, move func(context.Context) error) error {
	var mutexes []*holdfast.Mutex
	for _, account := range accounts {
		mutexes = append(mutexes, locker.Mutex("account/"+account))
	}
	return holdfast.DoAll(ctx, mutexes, func(ctx context.Context, _ holdfast.Locks) error {
		return move(ctx) // ctx ends when one of the locks is lost
	}, holdfast.Wait(5*time.Second))
}

func shutDown(stopTaking context.CancelFunc, running *sync.WaitGroup, locker *holdfast.Locker, closeClient func()) error {
	stopTaking()   // calls of Lock return
	running.Wait() // everybody has called Unlock
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := locker.Drain(ctx) // repeats unanswered releases; a lock that is left ends with its lease
	closeClient()
	return err
}

func besideJava(ctx context.Context, url string, ship func(context.Context) error) error {
	conn, err := rueidisconn.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	locker := holdfast.New(redishold.New(conn, nil), nil) // the default layout is Redisson's
	return locker.Mutex("stock:42").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error { return ship(ctx) })
}

func besideJavaAndPython(ctx context.Context, conn redishold.Conn, ship func(context.Context) error) error {
	java := holdfast.New(redishold.New(conn, nil), nil)
	python := holdfast.New(redishold.New(conn, &redishold.Options{
		Layout: redishold.Plain,        // that of redis-py
		Poll:   100 * time.Millisecond, // redis-py sends no message when it releases
	}), nil)
	both := []*holdfast.Mutex{java.Mutex("stock:42"), python.Mutex("stock:42:python")} // a key has one layout
	return holdfast.DoAll(ctx, both, func(ctx context.Context, _ holdfast.Locks) error { return ship(ctx) })
}
