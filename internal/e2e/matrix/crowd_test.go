package matrix

import (
	"bufio"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// While callers of one process take a lock one after the other, the process releases quietly: no
// message wakes the waiters of other processes. What follows hinders the process right after
// such a release, when the lock is free and nobody knows.

const (
	// callers is how many goroutines of the process want the lock.
	callers = 3
	// asleep is how long a waiter that nothing wakes sleeps at most before it asks again.
	asleep = time.Second
	// crowdTTL is longer than that: a waiter that waits for the end of the lease comes too late.
	crowdTTL = 5 * time.Second
	// repeated is how soon the core repeats a release without an answer, and publishes then.
	repeated = crowdTTL / 10
	// crowdRounds is how often the other process may get the lock first, or the machine be too
	// slow, before the cell fails.
	crowdRounds = 50
)

// woken is how soon a waiter has the lock if the release wakes it, or the process does when all of
// its callers have given up.
func (d deployment) woken() time.Duration {
	const message = 100 * time.Millisecond
	if k := d.store(); k != nil && k.Database || d == quorum5 { // a poll and a call; a release of five servers
		return message + call
	}
	return message
}

// crowd is the callers of a process.
type crowd struct {
	mesh  *faultproxy.Mesh
	begin func() // has the callers ask for the lock, and returns when they wait
	first func() // returns when the first of them has unlocked
	wait  func() // returns when each has had the lock, or has given up
}

// crowdOf begins the calls of one process. Each takes the lock and releases it at once, unless ctx
// ends before. The function answered is called with the result of each call of Lock, the function
// freed after each Unlock.
func crowdOf(ctx context.Context, l *holdfast.Locker, name string, answered func(token uint64, err error), freed func()) (wait func() error) {
	var all sync.WaitGroup
	failed := make(chan error, callers)
	for range callers {
		all.Go(func() {
			lock, err := l.Lock(ctx, name)
			if err != nil {
				answered(0, err)
				failed <- err
				return
			}
			answered(lock.Token(), nil)
			err = lock.Unlock()
			freed()
			failed <- err
		})
	}
	return func() error {
		all.Wait()
		close(failed)
		var errs []error
		for err := range failed {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// crowdOptions turn off that a process passes the lock on without its store. Then each caller asks
// the store.
func crowdOptions(ttl time.Duration, observe func(context.Context, holdfast.Event)) *holdfast.Options {
	return &holdfast.Options{TTL: ttl, Observe: observe, Handoff: holdfast.Handoff{Max: -1}}
}

// crowdHere returns a crowd in this process. Its callers give up when ctx ends; gaveUp counts these.
// The function granted is called at each grant; it may be nil.
func (s *scenario) crowdHere(ctx context.Context, granted func()) (c *crowd, gaveUp *atomic.Int32) {
	s.Helper()
	client := s.client()
	client.locker = holdfast.New(client.store.Backend, crowdOptions(s.ttl, client.observe))
	client.warm()
	gaveUp = new(atomic.Int32)
	var freed atomic.Int32
	answered := func(token uint64, err error) {
		if err != nil {
			gaveUp.Add(1)
			return
		}
		now := time.Now()
		s.history.end(s.history.begin(token, now), now)
		if granted != nil {
			granted()
		}
	}
	c = &crowd{mesh: client.mesh}
	c.begin = func() {
		client.waiting.Store(0)
		freed.Store(0)
		wait := crowdOf(ctx, client.locker, s.name, answered, func() { freed.Add(1) })
		c.wait = func() {
			if err := wait(); err != nil && ctx.Err() == nil {
				s.Errorf("the callers: %v", err)
			}
		}
		if !s.until(patience, func() bool { return client.waiting.Load() >= callers }) {
			s.Fatalf("%d callers wait, want %d", client.waiting.Load(), callers)
		}
	}
	c.first = func() {
		if !s.until(patience, func() bool { return freed.Load() > 0 }) {
			s.Fatal("no caller has unlocked")
		}
	}
	return c, gaveUp
}

// What the crowd of a process of its own reports, beside grants and unlocks.
const (
	allWait = "all wait"
	allDone = "all done"
)

// crowdInChild is the crowd of a process of its own. For each line that it reads, the callers take
// the lock once.
func crowdInChild(j job, st *store, log *judge.Recorder) error {
	var waiting atomic.Int32
	l := holdfast.New(st.Backend, crowdOptions(j.TTL, func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait && waiting.Add(1) == callers {
			log.Write(judge.Event{What: allWait})
		}
	}))
	ctx := context.Background()
	if err := crowdOf(ctx, l, j.Name, func(uint64, error) {}, func() {})(); err != nil {
		return err
	}
	log.Write(judge.Event{What: allDone})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		waiting.Store(0)
		got := func(token uint64, _ error) { log.Write(judge.Event{What: judge.Granted, Token: token}) }
		if err := crowdOf(ctx, l, j.Name, got, func() { log.Write(judge.Event{What: judge.Unlocked}) })(); err != nil {
			return err
		}
		log.Write(judge.Event{What: allDone})
	}
	return l.Drain(ctx)
}

// crowdProcess returns a crowd in a process of its own.
func (s *scenario) crowdProcess() (*crowd, *process) {
	s.Helper()
	mesh := s.startMesh()
	p := s.child(crowdJob, s.route(s.adapter, mesh))
	until := func(what string) {
		s.Helper()
		for _, e := range p.await(what) {
			if e.What == judge.Granted {
				s.history.end(s.history.granted(e), time.Unix(0, e.At))
			}
		}
	}
	p.await(allDone) // it has a connection, and knows its server
	return &crowd{mesh: mesh, begin: func() {
		if err := p.Send("begin"); err != nil {
			s.Fatal(err)
		}
		until(allWait)
	}, first: func() { until(judge.Unlocked) }, wait: func() { until(allDone) }}, p
}

// quietRelease matches the releases that publish nothing: they name no command that would.
func (s *scenario) quietRelease() faultproxy.Match {
	s.Helper()
	release := faultproxy.Script(redistest.ScriptSHA(s, "release"))
	return func(cmd []string) bool { return release(cmd) && len(cmd) == 6 } // EVALSHA, the digest, 1, the lock, the owner, the channel
}

// freeUnheard has the crowd get the lock from another process, and calls do while the first quiet
// release of the crowd is on its way. A waiter of a third process has asked before, and sleeps;
// asked is how often it has. The release arrives when do returns. freeUnheard returns that waiter,
// and when the lock was free.
func (s *scenario) freeUnheard(c *crowd, do func(asked func() int)) (w *waiting, freed time.Time) {
	s.Helper()
	first, o := s.other(), s.client()
	for range crowdRounds {
		k := first.take()
		asks := o.on(s.script("acquire"), unchanged, faultproxy.Always())
		w = o.queue(s.kind)
		s.wait(asks, 2) // the second time when it listens
		c.begin()
		quiet := c.on(s.quietRelease())
		asked := asks.answered()
		o.mesh.BlackholeRequests(true) // it hears that the lock is free, but asks too late
		k.mustUnlock()
		s.until(repeated, func() bool { return quiet.count() > 0 })
		o.mesh.BlackholeRequests(false)
		valid := quiet.count() > 0 && s.until(repeated/4, func() bool { return asks.answered() > asked }) && len(w.got) == 0
		if valid {
			do(asks.answered)
			freed = time.Now()
		}
		quiet.release()
		asks.release()
		if valid {
			return w, freed
		}
		s.Log("once more: the crowd did not release quietly, or the machine was too slow")
		w.served().mustUnlock()
		c.wait()
	}
	s.Fatalf("in %d rounds the crowd did not release quietly", crowdRounds)
	return nil, freed
}

// on delays the requests of the crowd that match.
func (c *crowd) on(match faultproxy.Match, when ...faultproxy.When) (rs rules) {
	for _, p := range c.mesh.Proxies() {
		rs = append(rs, p.On(match, faultproxy.DelayRequest(0), when...))
	}
	return rs
}

// unchanged is an action for rules that only count.
func unchanged() faultproxy.Action {
	return faultproxy.Rewrite(func(reply string) string { return reply })
}

// hinderedAfterRelease hinders a crowd when the lock is free and its next request is on its way.
// It returns the waiter's lock, and a function that lets that request arrive.
func (s *scenario) hinderedAfterRelease(c *crowd, hinder func()) (next *grip, arrive func()) {
	s.Helper()
	var held rules
	w, freed := s.freeUnheard(c, func(func() int) { held = c.on(s.script("acquire"), faultproxy.Always()) })
	s.wait(held, 1)
	hinder()
	next = w.served()
	took := time.Since(freed)
	s.Logf("the waiter got the lock %v after the release", took)
	s.within("the waiter got the lock", took, asleep+call)
	s.waited(took, wakeUp)
	return next, held.release
}

// killedAfterRelease: the process dies.
func killedAfterRelease(s *scenario) {
	s.ttl = crowdTTL
	c, p := s.crowdProcess()
	next, _ := s.hinderedAfterRelease(c, p.kill)
	next.mustUnlock()
}

// stoppedAfterRelease: the process stands still. Its callers get the lock when it runs again.
func stoppedAfterRelease(s *scenario) {
	s.ttl = crowdTTL
	c, p := s.crowdProcess()
	next, arrive := s.hinderedAfterRelease(c, p.Pause)
	p.Resume()
	arrive()
	next.stays(s.ttl / 10)
	next.mustUnlock()
	c.wait()
}

// cutOffAfterRelease: nothing of the process arrives, and it gets no answer.
func cutOffAfterRelease(s *scenario) {
	s.ttl = crowdTTL
	c, _ := s.crowdHere(s.bounded(), nil)
	next, arrive := s.hinderedAfterRelease(c, func() { c.mesh.Blackhole(true) })
	c.mesh.Blackhole(false)
	arrive()
	next.stays(s.ttl / 10)
	next.mustUnlock()
	c.wait()
}

// callersGiveUp: the process has nobody left who takes the lock, as in a service that shuts down.
func callersGiveUp(s *scenario) {
	s.ttl = crowdTTL
	ctx, cancel := context.WithCancel(s.bounded())
	defer cancel()
	c, gaveUp := s.crowdHere(ctx, nil)
	w, freed := s.freeUnheard(c, func(asked func() int) {
		before := asked()
		cancel()
		if !s.until(call, func() bool { return gaveUp.Load() == callers-1 }) { // one of them unlocks
			s.Errorf("%d callers have given up, want %d", gaveUp.Load(), callers-1)
		}
		s.until(call/3, func() bool { return asked() > before }) // if the process wakes it too early
	})
	s.soonServed(w, freed).mustUnlock()
	c.wait()
}

// What follows is for stores in which each release wakes a waiter, and which keep their order.

// hinderedAfterUnlock has the crowd get the lock from another process, and hinders it when the first
// of its callers has unlocked. Another process waits behind that caller. hinderedAfterUnlock
// returns its lock.
func (s *scenario) hinderedAfterUnlock(c *crowd, hinder func()) *grip {
	s.Helper()
	first, o := s.other(), s.other()
	k := first.take()
	c.begin()
	if s.server.Queues {
		s.claimed(2)
	}
	w := o.queue(s.kind)
	o.waits()
	if s.server.Queues {
		s.claimed(3)
	}
	k.mustUnlock()
	c.first()
	freed := time.Now()
	hinder()
	return s.soonServed(w, freed)
}

// killedAfterUnlock: the process dies.
func killedAfterUnlock(s *scenario) {
	s.forgotten = s.on.freeAfter(s.ttl) // what its other callers left
	c, p := s.crowdProcess()
	s.hinderedAfterUnlock(c, p.kill).mustUnlock()
}

// stoppedAfterUnlock: the process stands still. Its callers get the lock when it runs again.
func stoppedAfterUnlock(s *scenario) {
	c, p := s.crowdProcess()
	next := s.hinderedAfterUnlock(c, p.Pause)
	p.Resume()
	next.stays(s.ttl / 10)
	next.mustUnlock()
	c.wait()
}

// cutOffAfterUnlock: nothing of the process arrives, and it gets no answer.
func cutOffAfterUnlock(s *scenario) {
	c, _ := s.crowdHere(s.bounded(), nil)
	next := s.hinderedAfterUnlock(c, func() { c.mesh.Blackhole(true) })
	c.mesh.Blackhole(false)
	next.stays(s.ttl / 10)
	next.mustUnlock()
	c.wait()
}

// callersLeave: the process has nobody left who takes the lock. The callers give up when the first of
// them has it.
func callersLeave(s *scenario) {
	ctx, cancel := context.WithCancel(s.bounded())
	defer cancel()
	c, _ := s.crowdHere(ctx, cancel)
	s.hinderedAfterUnlock(c, func() {}).mustUnlock()
	c.wait()
	callersLeaveAhead(s)
}

// callersLeaveAhead: the callers give up before they have the lock, and right before it is free. In
// a store with a queue, one of them is ahead of the waiter.
func callersLeaveAhead(s *scenario) {
	ctx, cancel := context.WithCancel(s.bounded())
	defer cancel()
	c, _ := s.crowdHere(ctx, nil)
	first, o := s.other(), s.other()
	k := first.take()
	c.begin()
	w := o.queue(s.kind)
	o.waits()
	cancel()
	k.mustUnlock()
	s.soonServed(w, time.Now()).mustUnlock()
	c.wait()
}

// soonServed returns the lock of a waiter, who has to have it soon after the lock was free.
func (s *scenario) soonServed(w *waiting, freed time.Time) *grip {
	s.Helper()
	next := w.served()
	took := time.Since(freed)
	s.Logf("the waiter got the lock %v after the release", took)
	s.within("the waiter got the lock", took, s.on.woken())
	return next
}
