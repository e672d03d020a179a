package hosts

import (
	"context"
	"testing"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/job"
)

// Three schedulers that have the same job run it once in each tick.
func TestJobs(t *testing.T) {
	t.Parallel()
	for host, start := range map[string]func(t *testing.T, j *job.Job, called func()){"gocron": withGocron, "cron": withCron} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
				k := newTicks()
				for i := range instances {
					start(t, k.job(t, i, newLocker()), func() { k.call(i) })
				}
				k.judge(t)
			})
		})
	}
}

// withGocron runs a job, one run after the other.
func withGocron(t *testing.T, j *job.Job, called func()) {
	startGocron(t, gocron.NewTask(j.RunContext), called)
}

func startGocron(t *testing.T, task gocron.Task, called func(), opts ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	_, err = s.NewJob(gocron.DurationJob(period), task,
		gocron.WithSingletonMode(gocron.LimitModeReschedule),
		gocron.WithEventListeners(gocron.BeforeJobRuns(func(uuid.UUID, string) { called() })))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
}

// withCron runs a job, one run after the other.
func withCron(t *testing.T, j *job.Job, called func()) {
	t.Helper()
	calls := func(j cron.Job) cron.Job {
		return cron.FuncJob(func() {
			called()
			j.Run()
		})
	}
	c := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger), calls))
	if _, err := c.AddJob("@every "+period.String(), j); err != nil {
		t.Fatal(err)
	}
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// Gocron asks its Elector, and runs only the job of the leader.
func TestGocronElector(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		worked, resign := make(chan int, 1000), make([]func(), instances)
		for i := range instances {
			e := elect.New(newLocker().Mutex("leader"))
			resign[i] = campaign(t, func(ctx context.Context) error {
				return e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
					<-term.Done()
					return nil
				})
			})
			startGocron(t, gocron.NewTask(func() { worked <- i }), func() {}, gocron.WithDistributedElector(e))
		}
		succeed(t, worked, resign, 1) // gocron asks before it runs a job
	})
}

// Of three schedulers of asynq one enqueues, and another goes on when its process resigns.
func TestAsynq(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		redis := asynq.RedisClientOpt{Addr: redistest.Start(t).Addr()}
		worked, resign := make(chan int, 1000), make([]func(), instances)
		for i := range instances {
			e := elect.New(newLocker().Mutex("scheduler"))
			resign[i] = campaign(t, func(ctx context.Context) error {
				return schedule(ctx, e, redis, func(s *asynq.Scheduler) error {
					_, err := s.Register("@every 1s", asynq.NewTask("tick", []byte{byte(i)}))
					return err
				})
			})
		}
		server := asynq.NewServer(redis, asynq.Config{Concurrency: 1, LogLevel: asynq.ErrorLevel})
		handler := func(_ context.Context, task *asynq.Task) error {
			worked <- int(task.Payload()[0])
			return nil
		}
		if err := server.Start(asynq.HandlerFunc(handler)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		succeed(t, worked, resign, 0) // the queue keeps the order
	})
}
