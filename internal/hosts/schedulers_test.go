package hosts

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/job"
)

const (
	period = time.Second
	least  = 750 * time.Millisecond
)

// run is what a job did: which scheduler had it, and when it began.
type run struct {
	scheduler int
	token     uint64
	at        time.Time
}

// Three schedulers that have the same job do not run it twice within AtLeast.
func TestJobs(t *testing.T) {
	t.Parallel()
	for host, start := range map[string]func(*testing.T, *job.Job){"gocron": withGocron, "cron": withCron} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
				var runs lines[run]
				for i := range 3 {
					start(t, job.New(newLocker().Mutex("report"), func(_ context.Context, lock *holdfast.Lock) error {
						runs.add(run{i, lock.Token(), time.Now()})
						return nil
					}, holdfast.AtLeast(least)))
				}
				all := runs.until(t, 5)
				slices.SortFunc(all, func(a, b run) int { return a.at.Compare(b.at) })
				for i, this := range all[1:] {
					// The store counts from its grant, of which a run learns later: the one before may have
					// learned late.
					if gap := this.at.Sub(all[i].at); gap < least/2 {
						t.Errorf("a run %v after the one before", gap)
					}
				}
			})
		})
	}
}

func withGocron(t *testing.T, j *job.Job) {
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(period), gocron.NewTask(j.RunContext)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { _ = s.Shutdown() })
}

func withCron(t *testing.T, j *job.Job) {
	c := cron.New()
	if _, err := c.AddJob("@every 1s", j); err != nil {
		t.Fatal(err)
	}
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// gocron asks its Elector, and runs the job of the leader alone.
func TestGocronElector(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		ctx, running := untilEnd(t)
		var runs lines[run]
		resign := make([]chan struct{}, 3)
		for i := range resign {
			resign[i] = make(chan struct{})
			e := elect.New(newLocker().Mutex("leader"))
			running.Go(func() {
				_ = e.Run(ctx, func(term context.Context, _ *holdfast.Lock) error {
					select {
					case <-term.Done():
					case <-resign[i]: // for good
					}
					return nil
				})
			})
			s, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
			if err != nil {
				t.Fatal(err)
			}
			task := gocron.NewTask(func() { runs.add(run{scheduler: i}) })
			if _, err := s.NewJob(gocron.DurationJob(100*time.Millisecond), task); err != nil {
				t.Fatal(err)
			}
			s.Start()
			t.Cleanup(func() { _ = s.Shutdown() })
		}
		first := leaderOf(t, runs.until(t, 5))
		close(resign[first])
		before := len(runs.get())
		if second := leaderOf(t, runs.until(t, before+5)[before+1:]); second == first { // a run may have been under way
			t.Errorf("scheduler %d runs the job, and has resigned", second)
		}
	})
}

// leaderOf returns the scheduler that had all runs.
func leaderOf(t *testing.T, runs []run) int {
	t.Helper()
	for _, r := range runs {
		if r.scheduler != runs[0].scheduler {
			t.Errorf("schedulers %d and %d run the job", r.scheduler, runs[0].scheduler)
		}
	}
	return runs[0].scheduler
}

// Of three schedulers of asynq one enqueues, and another goes on when its process resigns.
func TestAsynq(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, newLocker func() *holdfast.Locker) {
		redis := asynq.RedisClientOpt{Addr: startRedis(t)}
		ctx, running := untilEnd(t)
		stop := make([]context.CancelFunc, 3)
		for i := range stop {
			var own context.Context
			own, stop[i] = context.WithCancel(ctx)
			e := elect.New(newLocker().Mutex("scheduler"))
			running.Go(func() {
				_ = schedule(own, e, redis, func(s *asynq.Scheduler) error {
					_, err := s.Register("@every 1s", asynq.NewTask("tick", []byte{byte(i)}))
					return err
				})
			})
		}
		inspector := asynq.NewInspector(redis)
		t.Cleanup(func() { _ = inspector.Close() })
		enqueued := func() (by [3]int) {
			tasks, _ := inspector.ListPendingTasks("default", asynq.PageSize(1000)) // there is no queue before the first task
			for _, task := range tasks {
				by[task.Payload[0]]++
			}
			return by
		}
		first := -1
		await.Until(t, time.Minute, "a scheduler enqueues", func() bool {
			by := enqueued()
			first = slices.IndexFunc(by[:], func(n int) bool { return n >= 2 })
			return first >= 0
		})
		if by := enqueued(); by[0]+by[1]+by[2] != by[first] {
			t.Errorf("two schedulers enqueue: %v", by)
		}
		stop[first]()
		before := enqueued()[first]
		await.Until(t, time.Minute, "another scheduler enqueues", func() bool {
			by := enqueued()
			return by[0]+by[1]+by[2]-by[first] >= 2
		})
		by := enqueued()
		if by[first] > before+1 { // one may have been under way
			t.Errorf("the scheduler that resigned enqueues: %d tasks, then %d", before, by[first])
		}
		if slices.Min(by[:]) > 0 {
			t.Errorf("all schedulers enqueue: %v", by)
		}
	})
}
