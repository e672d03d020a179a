// Package job is for work that a scheduler starts in every process, and that only one process
// has to do. A scheduler knows only its own process. So without a lock three replicas do
// everything three times.
//
//	j := job.New(locker.Mutex("report"), report, holdfast.AtLeast(45*time.Second)) // due each minute
//
// A Job fits a scheduler by its methods: c.AddJob(spec, j) of robfig/cron and its forks,
// gocron.NewTask(j.RunContext), or a call in a loop. For netresearch/go-cron with a context,
// cron.FuncJobWithContext takes a function that calls RunContext. That function need not handle
// the error, because RunContext has logged it.
package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/alone"
)

// Job is work under a lock. Any number of goroutines may run it: one at a time does the work.
type Job struct {
	// Logger gets a line for each error of a run, because most schedulers drop errors, and a
	// debug line for each run that is skipped. Default: slog.Default().
	Logger *slog.Logger

	// Observe, if it is not nil, is called at the end of each run, before RunContext returns, by
	// the goroutine of that run. It may, for example, set a metric to the time of the last run. A
	// run whose work panics is not observed. Set Observe before the first run.
	Observe func(context.Context, Result)

	mutex *holdfast.Mutex
	work  func(context.Context, *holdfast.Lock) error
	opts  []holdfast.Option
}

// Outcome says whether a run did the work.
type Outcome string

// The outcomes of a run.
const (
	Ran     Outcome = "ran"     // the work was done, under the lock until its end
	Skipped Outcome = "skipped" // the name was held, so the work did not begin
	Failed  Outcome = "failed"  // each other end: Result.Err says why
)

// Result is how a run ended.
type Result struct {
	Job     string // the name of the lock
	Outcome Outcome
	Err     error         // what RunContext returns; for a run that was skipped the *holdfast.BusyError
	Began   time.Time     // when the work began; zero if it did not begin
	Took    time.Duration // how long the work took
}

// New returns a Job that calls the function `work` while it holds m. The options apply to each
// run. Without AtLeast, a process whose clock is behind may do the work again as soon as the
// first process has finished. With the option Wait, a run waits while another process holds the
// lock, and then does the work, too. Without that option, the run is skipped. So Wait does not
// fit AtLeast: each process that has waited for the end of AtLeast would do the same work again.
//
// AtLeast does not outlive a crash: if the process dies during its work, the name is free when
// the lease ends. So give jobs a Locker of their own with a short TTL.
//
// RunContext returns an error for the read side of a RWMutex, which several processes hold at the
// same time.
func New(m *holdfast.Mutex, work func(context.Context, *holdfast.Lock) error, opts ...holdfast.Option) *Job {
	return &Job{mutex: m, work: work, opts: append([]holdfast.Option{holdfast.Wait(0)}, opts...)}
}

// RunContext takes the lock, does the work, and releases the lock, also if the work panics. The
// context of the work ends when ctx ends, and when the lock is lost. If the name is held, the
// run is skipped: RunContext returns nil. It logs and returns every other error: the error of
// the work, ErrLost, the error of a release that is not confirmed, or the error of the store.
// If the store stops responding while a run waits with the option Wait, that is an error, too.
// If ctx ends before the work begins, as when a scheduler shuts down, the error is logged as a
// debug line. RunContext does not repeat work that failed. With AtLeast the name stays taken
// after a failure, too.
func (j *Job) RunContext(ctx context.Context) error {
	log := cmp.Or(j.Logger, slog.Default())
	result := j.run(ctx)
	err := result.Err
	switch {
	case result.Outcome == Skipped:
		log.DebugContext(ctx, "job skipped", "job", result.Job, "reason", err)
		err = nil
	case err != nil && result.Began.IsZero() && ctx.Err() != nil: // a scheduler that shuts down
		log.DebugContext(ctx, "job not begun", "job", result.Job, "reason", err)
	case err != nil:
		log.ErrorContext(ctx, "job failed", "job", result.Job, "error", err)
	}
	if j.Observe != nil {
		j.Observe(ctx, result)
	}
	return err
}

// run takes the lock, does the work, and releases the lock.
func (j *Job) run(ctx context.Context) Result {
	r := Result{Job: j.mutex.Name(), Outcome: Ran}
	if err := alone.Check(j.mutex); err != nil {
		r.Outcome, r.Err = Failed, fmt.Errorf("job %q: %w", r.Job, err)
		return r
	}
	r.Err = j.mutex.Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		r.Began = time.Now()
		defer func() { r.Took = time.Since(r.Began) }()
		return j.work(ctx, lock)
	}, j.opts...)
	switch {
	case r.Began.IsZero() && errors.Is(r.Err, holdfast.ErrBusy):
		r.Outcome = Skipped
	case r.Err != nil:
		r.Outcome = Failed
	}
	return r
}

// Run is RunContext for a scheduler without contexts and errors.
func (j *Job) Run() { _ = j.RunContext(context.Background()) }
