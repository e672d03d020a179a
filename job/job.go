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
	"log/slog"

	"github.com/holdfast-go/holdfast"
)

// Job is work under a lock. Any number of goroutines may run it: one at a time does the work.
type Job struct {
	// Logger gets a line for each error of a run, because most schedulers drop errors, and a
	// debug line for each run that is skipped. Default: slog.Default().
	Logger *slog.Logger

	mutex *holdfast.Mutex
	work  func(context.Context, *holdfast.Lock) error
	opts  []holdfast.Option
}

// New returns a Job that calls the function `work` while it holds m. The options apply to each
// run. Without AtLeast, a process whose clock is behind may do the work again as soon as the
// first process has finished. With the option Wait, a run waits while another process holds the
// lock. Without that option, the run is skipped then.
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
	began := false
	err := j.mutex.Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		began = true
		return j.work(ctx, lock)
	}, j.opts...)
	switch {
	case err == nil:
		return nil
	case !began && errors.Is(err, holdfast.ErrBusy):
		log.DebugContext(ctx, "job skipped", "job", j.mutex.Name(), "reason", err)
		return nil
	case !began && ctx.Err() != nil: // a scheduler that shuts down
		log.DebugContext(ctx, "job not begun", "job", j.mutex.Name(), "reason", err)
		return err
	}
	log.ErrorContext(ctx, "job failed", "job", j.mutex.Name(), "error", err)
	return err
}

// Run is RunContext for a scheduler without contexts and errors.
func (j *Job) Run() { _ = j.RunContext(context.Background()) }
