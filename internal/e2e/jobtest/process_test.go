// Package jobtest runs jobs of several processes in schedulers, on real servers.
package jobtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/redishold"
)

// processVar is the environment of a process: a process as JSON.
const processVar = "HOLDFAST_TEST_PROCESS"

// ttl is the lease of the jobs.
const ttl = 4 * time.Second

// process is one of those that schedule the same jobs.
type process struct {
	Number int
	Behind time.Duration     // its clock is so far behind that of the test
	Addrs  map[string]string // of the servers, by store
	Cells  []cell

	out *json.Encoder
	mu  sync.Mutex // of out
}

// cell is a job in a scheduler, under a lock of a store.
type cell struct {
	Store, Host, Mode string
	Every, AtLeast    time.Duration
}

// Modes of a cell.
const (
	kept  = "kept"  // with AtLeast
	free  = "free"  // without
	crash = "crash" // with AtLeast, and the work goes on until the process is killed
)

func (c cell) String() string { return c.Store + "/" + c.Host + "/" + c.Mode }

// call is a run of the job of a cell, which found the name free or held.
type call struct {
	Cell          string
	Process       int
	Called, Ended time.Time // it ends with the grant if there is one
	Ran           bool
}

// main runs the jobs of the cells until the process is killed. It writes a line when it is
// ready, reads the time of the first tick, and writes a line for each call.
func (p *process) main() error {
	go func() { // a process that nobody kills
		time.Sleep(10 * time.Minute)
		os.Exit(1)
	}()
	p.out = json.NewEncoder(os.Stdout)
	lockers := map[string]*holdfast.Locker{}
	for store, addr := range p.Addrs {
		b, _, err := open(store, addr)
		if err != nil {
			return err
		}
		lockers[store] = holdfast.New(b, &holdfast.Options{TTL: cmp.Or(b.Info().SessionTTL, ttl), Logger: slog.Default()})
	}
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return err
	}
	var first time.Time
	if err := json.Unmarshal(line, &first); err != nil {
		return err
	}
	for _, c := range p.Cells {
		if err := hosts()[c.Host](ticks{first.Add(p.Behind), c.Every}, p.run(c, lockers[c.Store])); err != nil {
			return err
		}
	}
	select {}
}

// open returns a store of the cells, and how to close what is below it.
func open(store, addr string) (b driver.Backend, shut func(), err error) {
	layout, ok := map[string]redishold.Layout{"redisson": redishold.Redisson, "plain": redishold.Plain}[store]
	if !ok {
		k, err := anystore.Named(store)
		if err != nil {
			return nil, nil, err
		}
		return k.Dial(addr, ttl)
	}
	conn, shut, err := dial.Server(dial.Adapters()[0], addr, "", "")
	if err != nil {
		return nil, nil, err
	}
	return redishold.New(conn, &redishold.Options{Layout: layout}), shut, nil
}

type calledKey struct{}

// run returns a run of the job of a cell, which reports itself.
func (p *process) run(c cell, l *holdfast.Locker) func(context.Context) error {
	report := func(ctx context.Context, ran bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = p.out.Encode(call{c.String(), p.Number, ctx.Value(calledKey{}).(time.Time), time.Now(), ran})
	}
	work := func(ctx context.Context, _ *holdfast.Lock) error {
		report(ctx, true)
		if c.Mode == crash {
			<-ctx.Done()
		}
		time.Sleep(5 * time.Millisecond)
		return nil
	}
	var opts []holdfast.Option
	if c.Mode != free {
		opts = append(opts, holdfast.AtLeast(c.AtLeast))
	}
	j := job.New(l.Mutex(strings.ReplaceAll(c.String(), "/", "-")), work, opts...)
	j.Logger = slog.New(skipped{slog.Default().Handler(), report})
	return func(ctx context.Context) error {
		return j.RunContext(context.WithValue(ctx, calledKey{}, time.Now()))
	}
}

// skipped is a log that reports runs which are skipped.
type skipped struct {
	slog.Handler
	report func(ctx context.Context, ran bool)
}

func (s skipped) Enabled(context.Context, slog.Level) bool { return true }

func (s skipped) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelDebug {
		s.report(ctx, false)
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// ticks are the times at which a job is due, by the clock of a process.
type ticks struct {
	first time.Time
	every time.Duration
}

// Next makes them a cron.Schedule.
func (s ticks) Next(after time.Time) time.Time {
	if after.Before(s.first) {
		return s.first
	}
	return after.Add(s.every - after.Sub(s.first)%s.every)
}

// hosts are the schedulers.
func hosts() map[string]func(ticks, func(context.Context) error) error {
	return map[string]func(ticks, func(context.Context) error) error{
		"cron": func(due ticks, run func(context.Context) error) error {
			c := cron.New()
			c.Schedule(due, cron.FuncJob(func() { _ = run(context.Background()) }))
			c.Start()
			return nil
		},
		"gocron": func(due ticks, run func(context.Context) error) error {
			s, err := gocron.NewScheduler()
			if err != nil {
				return err
			}
			at := due.Next(time.Now().Add(50 * time.Millisecond))
			_, err = s.NewJob(gocron.DurationJob(due.every), gocron.NewTask(run), gocron.WithStartAt(gocron.WithStartDateTime(at)))
			s.Start()
			return err
		},
		"loop": func(due ticks, run func(context.Context) error) error {
			go func() {
				for {
					time.Sleep(time.Until(due.Next(time.Now())))
					_ = run(context.Background())
				}
			}()
			return nil
		},
	}
}
