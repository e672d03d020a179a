package shedlocktest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/rollover"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/pghold"
)

// The program of docs/migrating-java.md.

func newReportJob(pool *pgxpool.Pool, report func(context.Context) error) *job.Job {
	store := pghold.New(pool, &pghold.Options{Layout: pghold.ShedLock})
	locker := holdfast.New(store, &holdfast.Options{TTL: time.Minute})
	work := func(ctx context.Context, _ *holdfast.Lock) error {
		return report(ctx) // ctx ends when the lock is lost
	}
	return job.New(locker.Mutex("report"), work, holdfast.AtLeast(50*time.Second), holdfast.AtMost(10*time.Minute))
}

// Java and Go take a lock in the table in turns.
func TestFromShedLock(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			locker, p := s.locker(t), java(t, s.url)
			rollover.Test(t,
				rollover.Peer(p,
					peer.Command{Op: "lock", Name: "turns", Lease: hour, Wait: timeout.Milliseconds()},
					peer.Command{Op: "unlock", Name: "turns"}),
				func(ctx context.Context, work func(context.Context) error) error {
					return locker.Mutex("turns").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error { return work(ctx) })
				},
			)
			if s.name == "pgx" {
				runOncePerTick(t, s, p)
			}
		})
	}
}

// runOncePerTick has each tick of the job run once, in Java or in Go.
func runOncePerTick(t *testing.T, s *store, p *peer.Process) {
	pool, err := pgxpool.New(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	runs := 0
	goes := newReportJob(pool, func(context.Context) error { runs++; return nil })
	inGo := func() bool {
		before := runs
		if err := goes.RunContext(t.Context()); err != nil {
			t.Error(err)
		}
		return runs > before
	}
	inJava := func() bool { return p.Do(peer.Command{Op: "migration"}).Bool() }
	for i, run := range []func() bool{inJava, inGo, inJava} {
		if !run() {
			t.Errorf("tick %d: no run, want one", i)
		}
		if inJava() || inGo() {
			t.Errorf("tick %d: a second run", i)
		}
		s.exec(t, "UPDATE shedlock SET lock_until = locked_at WHERE name = 'report'") // as if 50 s had passed
	}
}
