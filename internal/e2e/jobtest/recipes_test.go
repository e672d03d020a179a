package jobtest

import (
	"context"
	"errors"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/job"
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
