package matrix

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

// What a process of its own does.
const (
	holdJob  = "hold"  // it holds a lock
	crowdJob = "crowd" // it has callers that take the lock one after the other
)

// job is the plan of such a process.
type job struct {
	Route route
	Kind  kind
	Name  string
	TTL   time.Duration
}

// inChild returns what a process does that does what do does.
func inChild(do func(j job, st *store, log *judge.Recorder) error) func(*worker.Worker) error {
	return func(w *worker.Worker) error {
		var j job
		if err := w.Plan(&j); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		st, err := j.Route.open(ctx, j.TTL, nil)
		if err != nil {
			return err
		}
		defer st.shut()
		return do(j, st, w.Log)
	}
}

// holdInChild takes a lock and holds it until it is lost or stdin ends.
func holdInChild(j job, st *store, log *judge.Recorder) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := &scenario{cell: cell{kind: j.Kind}, name: j.Name}
	c := &client{scenario: s, store: st, locker: holdfast.New(st.Backend, &holdfast.Options{TTL: j.TTL})}
	k, err := c.ofKind(ctx, j.Kind)
	if err != nil {
		return err
	}
	log.Write(judge.Event{What: judge.Granted, Token: k.number})
	if k.ctx == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(k.ctx, func() { ended <- time.Now() })
	held := int64(0)
	if k.errAfterStop(j.TTL) == nil {
		held = 1
	}
	log.Write(judge.Event{
		At: (<-ended).UnixNano(), What: judge.Lost, Err: judge.ErrorWord(context.Cause(k.ctx)),
		Figures: map[string]int64{heldAfterStop: held, queued: int64(judge.Queued(os.Getpid()))},
	})
	log.Write(judge.Event{What: judge.Unlocked, Err: judge.ErrorWord(k.give())})
	return nil
}

// The figures of a loss.
const (
	heldAfterStop = "held"   // 1 if Lock.Err said so when the process looked first, after it was stopped
	queued        = "queued" // see judge.Queued
)

// errAfterStop looks at the lock as soon as this process runs again after a stop, or when
// the lock is lost.
func (k *grip) errAfterStop(ttl time.Duration) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for last := time.Now(); k.ctx.Err() == nil; <-look.C {
		now := time.Now()
		if now.Sub(last) > ttl/2 {
			break
		}
		last = now
	}
	return k.err()
}

// process uses the lock in a process of its own.
type process struct {
	*scenario
	*judge.Process
	belief *belief // nil of a crowd
}

// holder starts a process that holds the lock.
func (s *scenario) holder() *process {
	s.Helper()
	p := s.child(holdJob, s.route(s.adapter, nil))
	p.belief = s.history.granted(p.await(judge.Granted)[0])
	return p
}

// child starts a process with a job for the lock.
func (s *scenario) child(what string, way route) *process {
	s.Helper()
	p, err := worker.Start(0, what, job{Route: way, Kind: s.kind, Name: s.name, TTL: s.ttl}, nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		p.Stop()
		p.Kill()
	})
	return &process{scenario: s, Process: p}
}

// await returns what the process has reported since the last call, and waits until that ends
// with what.
func (p *process) await(what string) []judge.Event {
	p.Helper()
	events, err := p.Until(what, patience)
	if err != nil {
		p.Fatal(err)
	}
	return events
}

// resume lets it run again, and returns after which time it noticed its loss, net
// of the time in which it waited for a processor.
func (p *process) resume() time.Duration {
	p.Helper()
	before := p.Queued()
	resumed := p.Resume()
	reported := p.await(judge.Lost)
	lost, unlocked := reported[len(reported)-1], p.await(judge.Unlocked)[0]
	at := time.Unix(0, lost.At)
	p.history.end(p.belief, at)
	if lost.Err != "lost" {
		p.Error("the holder was not notified of its loss")
	}
	if lost.Figures[heldAfterStop] != 0 {
		p.Error("the first look at the lock after the stop said that it is held")
	}
	if unlocked.Err == "" {
		p.Error("Unlock after a loss: got nil, want ErrLost")
	}
	p.history.note('L')
	waited := time.Duration(lost.Figures[queued]) - before
	p.Logf("notified after %v, of which it waited for a processor for %v", at.Sub(resumed), waited)
	return at.Sub(resumed) - waited
}

// kill ends it at once.
func (p *process) kill() {
	p.Helper()
	p.Kill()
	if p.belief != nil {
		p.history.end(p.belief, time.Now())
	}
}
