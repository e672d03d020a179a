package job_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/memhold"
)

// logged returns a Job that writes its log to the buffer.
func logged(l *holdfast.Locker, do func(context.Context, *holdfast.Lock) error, opts ...holdfast.Option) (*job.Job, *bytes.Buffer) {
	j, b := job.New(l.Mutex("report"), do, opts...), new(bytes.Buffer)
	j.Logger = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return j, b
}

// nothing is work that ends at once.
func nothing(context.Context, *holdfast.Lock) error { return nil }

// Three processes, whose clocks differ by less than AtLeast, run the job once per tick;
// without AtLeast each of them runs it.
func TestOncePerTick(t *testing.T) {
	const ticks, period = 60, 2 * time.Second
	for _, test := range []struct {
		opts []holdfast.Option
		want int64
	}{
		{nil, 3 * ticks},
		{[]holdfast.Option{holdfast.AtLeast(period * 3 / 4)}, ticks},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memhold.New()
			var runs atomic.Int64
			for _, late := range []time.Duration{0, 400 * time.Millisecond, 900 * time.Millisecond} {
				l := holdfast.New(store, &holdfast.Options{TTL: 4 * time.Second})
				j, _ := logged(l, func(context.Context, *holdfast.Lock) error {
					time.Sleep(5 * time.Millisecond)
					runs.Add(1)
					return nil
				}, test.opts...)
				go func() {
					time.Sleep(late)
					for range ticks {
						go j.Run()
						time.Sleep(period)
					}
				}()
			}
			time.Sleep(ticks*period + period/2)
			synctest.Wait()
			if got := runs.Load(); got != test.want {
				t.Errorf("%d options: %d runs in %d ticks, want %d", len(test.opts), got, ticks, test.want)
			}
		})
	}
}

// A run that finds the name held is skipped, which is no error, also if a caller of this
// process holds it. With Wait the run waits.
func TestSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, other := holdfast.New(store, nil), holdfast.New(store, &holdfast.Options{Note: "replica-2"})
		for _, holder := range []*holdfast.Locker{l, other} {
			lock := must.Lock(t, holder, "report")
			j, log := logged(l, func(context.Context, *holdfast.Lock) error { t.Error("ran beside the holder"); return nil })
			if err := j.RunContext(t.Context()); err != nil {
				t.Errorf("held: got %v, want nil", err)
			}
			if got := log.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "job=report") || holder == other && !strings.Contains(got, "replica-2") {
				t.Errorf("held: log %q, want a debug line with the holder", got)
			}
			time.AfterFunc(time.Second, func() { must.Unlock(t, lock) })
			ran := false
			j, _ = logged(l, func(context.Context, *holdfast.Lock) error { ran = true; return nil }, holdfast.Wait(2*time.Second))
			if err := j.RunContext(t.Context()); err != nil || !ran {
				t.Errorf("waited: ran %v, %v", ran, err)
			}
		}
	})
}

// Every error, except that the name is held, is returned, and is one line of the log.
func TestErrors(t *testing.T) {
	own := errors.New("disk full")
	refuse := func(context.Context, driver.Claim) (driver.Outcome, error) {
		return driver.Outcome{}, errors.Join(own, driver.ErrRefused)
	}
	hang := func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
		return driver.Outcome{}, faulty.Hang(ctx)
	}
	for name, test := range map[string]struct {
		try  func(context.Context, driver.Claim) (driver.Outcome, error)
		do   func(context.Context, *holdfast.Lock) error
		opts []holdfast.Option
		want error // nil: any
	}{
		"of the work":       {do: func(context.Context, *holdfast.Lock) error { return own }, want: own},
		"busy, of the work": {do: func(context.Context, *holdfast.Lock) error { return holdfast.ErrBusy }, want: holdfast.ErrBusy},
		"an option":         {opts: []holdfast.Option{holdfast.AtLeast(-1)}},
		"the store refuses": {try: refuse, want: own},
		"no answer":         {try: hang},
		"no answer, waited": {try: hang, opts: []holdfast.Option{holdfast.Wait(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := faulty.New()
				store.OnTry = test.try
				l := holdfast.New(store, nil)
				do := test.do
				if do == nil {
					do = nothing
				}
				j, log := logged(l, do, test.opts...)
				err := j.RunContext(t.Context())
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				j.Run()
				if got := log.String(); strings.Count(got, "level=ERROR") != 2 || strings.Count(got, "\n") != 2 || !strings.Contains(got, "job=report") {
					t.Errorf("two runs: log %q, want two lines of errors", got)
				}
				must.Drain(t, l)
			})
		})
	}
}

// An outage that begins while a run waits for a holder is an error, not a skipped run.
func TestOutageAtTheEndOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		lock := must.Lock(t, holdfast.New(store, nil), "report")
		l := holdfast.New(store, nil)
		j, log := logged(l, nothing, holdfast.Wait(20*time.Second))
		time.AfterFunc(5*time.Second, func() {
			store.Change(func() {
				store.OnTry = func(ctx context.Context, _ driver.Claim) (driver.Outcome, error) {
					return driver.Outcome{}, faulty.Hang(ctx)
				}
			})
		})
		if err := j.RunContext(t.Context()); err == nil || errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want what the store did not answer", err)
		}
		if got := log.String(); !strings.Contains(got, "level=ERROR") {
			t.Errorf("log %q, want an error", got)
		}
		must.Unlock(t, lock)
		must.Drain(t, l)
	})
}

// The context of the work ends with that of the run, and when the lock is lost, which is
// an error of the run.
func TestContextOfTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		wait := func(ctx context.Context, _ *holdfast.Lock) error { <-ctx.Done(); return nil }
		j, _ := logged(l, wait)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.RunContext(ctx); err != nil {
			t.Errorf("the run's context ended: got %v, want nil", err)
		}
		j, log := logged(l, wait)
		time.AfterFunc(time.Second, func() { store.Drop("report") })
		if err := j.RunContext(t.Context()); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("lost: got %v and the log %q, want ErrLost", err, log)
		}
	})
}

// A run that the scheduler ends before its work begins is no error in the log.
func TestEndedBeforeTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		lock := must.Lock(t, holdfast.New(store, nil), "report")
		j, log := logged(holdfast.New(store, nil), nothing, holdfast.Wait(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.RunContext(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("got %v and the log %q", err, log)
		}
		must.Unlock(t, lock)
	})
}

// An observer sees which runs did the work, which were skipped, and which failed.
func TestObserve(t *testing.T) {
	own := errors.New("disk full")
	slow := func(err error) func(context.Context, *holdfast.Lock) error {
		return func(context.Context, *holdfast.Lock) error { time.Sleep(time.Second); return err }
	}
	for name, test := range map[string]struct {
		store func(*testing.T, *memhold.Backend)
		do    func(context.Context, *holdfast.Lock) error
		opts  []holdfast.Option
		want  job.Outcome
		err   error
		began bool
	}{
		"ran":    {do: slow(nil), want: job.Ran, began: true},
		"failed": {do: slow(own), want: job.Failed, err: own, began: true},
		"lost": {do: func(ctx context.Context, lock *holdfast.Lock) error {
			return slow(nil)(ctx, lock)
		}, store: func(t *testing.T, b *memhold.Backend) {
			time.AfterFunc(time.Second/2, func() { b.Drop("report") })
		}, want: job.Failed, err: holdfast.ErrLost, began: true},
		"skipped": {store: func(t *testing.T, b *memhold.Backend) {
			lock := must.Lock(t, holdfast.New(b, nil), "report")
			t.Cleanup(func() { must.Unlock(t, lock) })
		}, want: job.Skipped, err: holdfast.ErrBusy},
		"no lock": {opts: []holdfast.Option{holdfast.FixedLease(-1)}, want: job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				if test.store != nil {
					test.store(t, store)
				}
				do := test.do
				if do == nil {
					do = nothing
				}
				j, _ := logged(holdfast.New(store, nil), do, test.opts...)
				var results []job.Result
				j.Observe = func(_ context.Context, r job.Result) { results = append(results, r) }
				start := time.Now()
				returned := j.RunContext(t.Context())
				if len(results) != 1 {
					t.Fatalf("got %d results, want 1", len(results))
				}
				r := results[0]
				if r.Job != "report" || r.Outcome != test.want || test.err != nil && !errors.Is(r.Err, test.err) || (r.Err == nil) != (test.want == job.Ran) {
					t.Errorf("got %+v, want %q with the error %v", r, test.want, test.err)
				}
				if (returned == nil) != (test.want != job.Failed) {
					t.Errorf("%s: RunContext returned %v", test.want, returned)
				}
				if test.began && (!r.Began.Equal(start) || r.Took != time.Second) || !test.began && (!r.Began.IsZero() || r.Took != 0) {
					t.Errorf("began %v, took %v; the run began at %v", r.Began, r.Took, start)
				}
			})
		})
	}
}

// The read side of a read-write lock lets each process do the work.
func TestReadSideIsRefused(t *testing.T) {
	l := holdfast.New(memhold.New(), nil)
	j := job.New(l.RWMutex("report").Read, func(context.Context, *holdfast.Lock) error { t.Error("the work began"); return nil })
	j.Logger = slog.New(slog.DiscardHandler)
	if err := j.RunContext(t.Context()); err == nil || !strings.Contains(err.Error(), "use a Mutex") {
		t.Errorf("got %v, want an error that says to use a Mutex", err)
	}
}

// Work that panics releases the lock, and the panic reaches the scheduler.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holdfast.New(memhold.New(), nil)
		j, _ := logged(l, func(context.Context, *holdfast.Lock) error { panic("broken") })
		func() {
			defer func() {
				if got := recover(); got != "broken" {
					t.Errorf("got the panic %v, want that of the work", got)
				}
			}()
			j.Run()
		}()
		must.Unlock(t, must.Lock(t, l, "report", holdfast.Wait(0)))
	})
}

// Without a Logger the log is slog.Default.
func TestDefaultLogger(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	j := job.New(holdfast.New(memhold.New(), nil).Mutex("report"), nothing, holdfast.AtLeast(-1))
	j.Run()
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("log %q, want an error", log.String())
	}
}
