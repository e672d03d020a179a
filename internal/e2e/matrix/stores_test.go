package matrix

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
)

// stores returns the stores that are no Redis: one server each, and one kind of lock.
func stores() (all []deployment) {
	for _, k := range anystore.All() {
		all = append(all, deployment(k.Name))
	}
	return all
}

// store returns the entry of a store that is no Redis, nil of Redis.
func (d deployment) store() *anystore.Kind {
	k, err := anystore.Named(string(d))
	if err != nil {
		return nil
	}
	return k
}

const (
	// storeBack is how long a waiter may take to be served once its store answers again.
	storeBack = 4 * time.Second
	// storeTTL is for how long a lock counts as held after a renewal, a margin before that.
	storeTTL = 2 * time.Second
	// restartTTL is longer than a server takes to start.
	restartTTL = 12 * time.Second
)

// freeAfter is how soon after its holder's death a lock is free.
func (d deployment) freeAfter(ttl time.Duration) time.Duration {
	if k := d.store(); k != nil {
		return ttl + time.Second + k.Late
	}
	return ttl + ttl/10
}

// outage is what a holder survives that is cut off for so long after a renewal.
func (d deployment) outage(ttl time.Duration) time.Duration {
	if k := d.store(); k != nil && k.TwoThirds {
		return ttl / 3
	}
	return ttl / 2
}

// storeFault is one row, and what it means for those who have the lock, and for the waiters.
type storeFault struct{ id, what, holder, waiter string }

// storeFaults returns the rows of the table of stores. Ids that are those of faults()
// stand for the same fault.
func storeFaults() []storeFault {
	return []storeFault{
		{"F1", "answer to an acquire lost, and the connection with it", "has the lock, by the same claim", "waits"},
		{"F3", "acquire delayed until its caller has given up", "gets the error of its context, and leaves nothing", "is served"},
		{"F5", "answer to an unlock lost, and the connection with it", "has released", "is served"},
		{"F6", "answer to a renewal lost, and the connection with it", "still holds", "waits"},
		{"F7", "context cancelled in an acquire", "gets the error of its context, and leaves nothing", "is served"},
		{"F8", "connections cut", "still holds", "waits"},
		{"F9", "holder cut off for less than the rest of its lease", "still holds", "waits"},
		{"F10", "holder cut off for longer than its TTL", "is notified before another has the lock", "is served when the lease ends"},
		{"F10a", "holder's requests arrive, answers do not", "is notified before another has the lock", "is served when the lease ends, or the holder releases"},
		{"F10b", "answers arrive, holder's requests do not", "is notified before another has the lock", "is served when the lease ends"},
		{"F11", "server hung for longer than a TTL", "is notified before the lease ends", "is served when the server answers again"},
		{"F12", "waiter cut off for longer than its TTL, while the lock is released", "has released the lock", "is served when it has a connection again"},
		{"F13", "holder's process stopped for longer than its TTL", "is notified when it runs again", "is served when the lease ends"},
		{"F14", "holder's process killed", "is dead", "is served when the lease ends"},
		{"F18", "server killed and started with its data", "still holds", "keeps waiting, and is served after the unlock"},
		{"F34", "lock forced, by a console", "is notified at its next renewal", "is served at once"},
		{"F39", "each answer late by a twentieth of the TTL", "still holds", "waits"},
		{"F40", "leader of three servers killed", "still holds", "keeps its place"},
		{"F41", "leader of three servers hung for longer than a lease, and works again", "still holds. In etcd it may then be notified of a loss", "keeps its place. In etcd it may then have to take a new one"},
		{"F42", "holder cut off, and the leader killed", "is notified before another has the lock", "is served when the lease ends. The next leader starts the lease again"},
		{"F43", "the holder's server hung, one of three", "still holds, through another server", "waits"},
		{"F44", "synchronous standby promoted", "is notified before the lease ends", "is served when the lease ends"},
		{"F45", "asynchronous standby with the lock promoted", "is notified before the lease ends", "is served when the lease ends"},
		{"F46", "asynchronous standby promoted without the last commits", "is notified before its lease ends", "is served at once"},
		{"F47", "server closes idle connections", "still holds", "waits"},
		{"F48", "pooler or proxy that drops all connections, ten times a second", "still holds", "waits"},
		{"F49", "pooler killed and started again", "still holds", "waits"},
		{"F50", "store hung, under `holdfast run`", "stops its command before another has the lock, and exits with status 79", "is served when the lease ends"},
		{"F51", "random faults, judged by a history", "is the only holder", "each is served"},
		{"F52", "process killed after a release, while its callers and others wait", "is dead", "is served at once"},
		{"F53", "the same process stopped", "has released; its callers are served when it runs again", "is served at once"},
		{"F54", "the same process cut off", "has released; its callers are served when it has a connection again", "is served at once"},
		{"F55", "all callers of a process give up while others wait", "has released", "is served at once"},
	}
}

// storeEntries returns the cells of the other stores. Those of by are tests of other
// folders, "folder.Test".
func storeEntries() []entry {
	all := stores()
	return append([]entry{
		{fault: "F1", on: all, want: "A", check: lostAnswerOfAcquire},
		{fault: "F3", on: all, want: "E", check: delayedAcquire},
		{fault: "F5", on: all, want: "A", check: lostAnswerOfUnlock},
		{fault: "F6", on: all, want: "A", check: lostAnswerOfRenewal},
		{fault: "F7", on: all, want: "E", check: cancelledInAnAcquire},
		{fault: "F8", on: all, want: "A", check: cutConnections},
		{fault: "F9", on: all, want: "A", check: shortOutage},
		{fault: "F10", on: all, want: "L", check: longOutage},
		{fault: "F10a", on: all, want: "L", check: noAnswers},
		{fault: "F10b", on: all, want: "L", check: noRequests},
		{fault: "F11", on: all, want: "LW", check: hungStore},
		{fault: "F12", on: all, want: "W", check: waiterCutOff},
		{fault: "F13", on: all, want: "LU", check: stoppedHolder, notified: "5 ms after its process runs again; waiting for a processor does not count"},
		{fault: "F14", on: all, want: "W", check: killedHolder},
		{fault: "F18", on: all, want: "A", check: restartedStore},
		{fault: "F34", on: all, want: "LU", check: forcedUnnoticed, notified: "TTL/3, and the time of a call"},
		{fault: "F39", on: all, want: "A", check: lateAnswers},
		{fault: "F50", on: all, want: "LW", by: "storestest.TestCLIOfStores"},
		{fault: "F51", on: all, want: "A", by: "soak.TestSoakOfStores"},
		{fault: "F52", on: all, want: "A", check: killedAfterUnlock},
		{fault: "F53", on: all, want: "A", check: stoppedAfterUnlock},
		{fault: "F54", on: all, want: "A", check: cutOffAfterUnlock},
		{fault: "F55", on: all, want: "A", check: callersLeave},
	}, inOtherFolders()...)
}

// inOtherFolders returns the cells of faults that one kind of store has, or that are tested in its
// own folder.
func inOtherFolders() (all []entry) {
	for _, k := range anystore.All() {
		for _, e := range k.Elsewhere {
			all = append(all, entry{fault: e.Fault, on: []deployment{deployment(k.Name)}, want: outcome(e.Want), by: e.Test, notified: e.Notified})
		}
	}
	return all
}

// storeCells returns the matrix of the other stores.
func storeCells() []cell {
	var all []cell
	for _, e := range storeEntries() {
		all = append(all, e.cells()...)
	}
	return all
}

// noStoreCell says why a place of the other stores has no cell; "" if it must have one.
func noStoreCell(fault string, on deployment) string { return on.store().Without[fault] }

// claimed waits until the server has n claims of the lock: its holder's and, where the
// store queues, those of waiters.
func (s *scenario) claimed(n int) {
	s.Helper()
	var names []string
	var err error
	if !s.until(patience, func() bool {
		names, err = s.server.Left(s.name)
		return err == nil && len(names) == n
	}) {
		s.Fatalf("the server has claims %q, %v, want %d", names, err, n)
	}
}

// waits returns when a waiter of the client waits.
func (c *client) waits() {
	c.Helper()
	if !c.until(patience, func() bool { return c.waiting.Load() > 0 }) {
		c.Fatal("it does not wait")
	}
}

// unanswered calls do, and loses the answer with its connection when the server has n
// claims: it has done what it was asked.
func (c *client) unanswered(n int, do func() error) {
	c.Helper()
	c.mesh.BlackholeReplies(true)
	done := make(chan error, 1)
	go func() { done <- do() }()
	c.claimed(n)
	select {
	case err := <-done:
		c.Errorf("the call ended without an answer: %v", err)
		return
	default:
	}
	c.mesh.CutAll()
	c.mesh.BlackholeReplies(false)
	if err := <-done; err != nil {
		c.Fatalf("after the answer was lost: %v", err)
	}
}

// lostAnswerOfAcquire: the server has granted the lock, and no client got the answer.
func lostAnswerOfAcquire(s *scenario) {
	c, o := s.client(), s.other()
	var k *grip
	c.unanswered(1, func() (err error) {
		k, err = c.try(c.bounded())
		return err
	})
	s.wantHeld()
	o.wantBusy()
	k.mustUnlock()
}

// delayedAcquire: the request arrives when its caller has given up.
func delayedAcquire(s *scenario) {
	c, o := s.client(), s.other()
	s.forgotten = s.ttl + time.Second
	c.mesh.BlackholeRequests(true)
	if _, err := c.try(s.lasting(100 * time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("got %v, want the context's error", err)
	}
	c.mesh.BlackholeRequests(false)
	sent := time.Now()
	next := o.take()
	s.within("free for another", time.Since(sent), s.forgotten)
	next.mustUnlock()
	c.drain()
	c.take().mustUnlock()
}

// lostAnswerOfUnlock: the lock is free, and its holder does not know.
func lostAnswerOfUnlock(s *scenario) {
	c := s.client()
	k := c.take()
	c.unanswered(0, k.unlock)
	s.other().take().mustUnlock()
}

// lostAnswerOfRenewal: the next one is answered.
func lostAnswerOfRenewal(s *scenario) {
	c := s.client()
	k := c.take()
	c.renewed(k, 1)
	c.mesh.BlackholeReplies(true)
	before := c.unrenewed.Load()
	if !s.until(patience, func() bool { return c.unrenewed.Load() > before }) {
		s.Fatal("no renewal was left without an answer")
	}
	c.mesh.CutAll()
	c.mesh.BlackholeReplies(false)
	c.renewed(k, 1)
	s.wantHeld()
	k.mustUnlock()
}

// cancelledInAnAcquire: the caller gives up when the server has granted the lock.
func cancelledInAnAcquire(s *scenario) {
	c := s.client()
	s.forgotten = s.ttl + time.Second
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	c.mesh.BlackholeReplies(true)
	done := make(chan error, 1)
	go func() {
		_, err := c.try(ctx)
		done <- err
	}()
	s.claimed(1)
	cancelled := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		s.Errorf("got %v, want the context's error", err)
	}
	s.within("Lock returned after its context", time.Since(cancelled), 50*time.Millisecond)
	c.mesh.BlackholeReplies(false)
	s.wantGone(s.forgotten)
}

// cutConnections: three times, while the lock is held.
func cutConnections(s *scenario) {
	c, o := s.client(), s.other()
	k := c.take()
	for range 3 {
		c.mesh.CutAll()
		k.stays(s.ttl / 3)
	}
	s.wantHeld()
	o.wantBusy()
	k.mustUnlock()
}

// noAnswers: what the holder sends arrives, and it learns of nothing.
func noAnswers(s *scenario) { s.oneWay((*client).blackholeReplies) }

// noRequests: what the holder sends does not arrive.
func noRequests(s *scenario) { s.oneWay((*client).blackholeRequests) }

func (c *client) blackholeReplies(on bool)  { c.mesh.BlackholeReplies(on) }
func (c *client) blackholeRequests(on bool) { c.mesh.BlackholeRequests(on) }

// oneWay is longOutage of one direction.
func (s *scenario) oneWay(hole func(c *client, on bool)) {
	s.Helper()
	c, o := s.client(), s.other()
	k := c.take()
	w := o.queue(s.kind)
	hole(c, true)
	cut := time.Now()
	k.lost(cut, s.ttl) // before the other has it: see the judge
	next := w.served()
	hole(c, false)
	next.stays(s.ttl / 2) // what the first one sent late does no harm
	next.mustUnlock()
}

// hungStore: nothing is answered for longer than a lease.
func hungStore(s *scenario) {
	s.Cleanup(func() { _ = s.server.Resume() }) // also where it fails in between
	does := func(do func() error) func() {
		return func() {
			if err := do(); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.silent(does(s.server.Pause), does(s.server.Resume), s.client(), s.client(), storeBack)
}

// waiterCutOff: the lock is released while its waiter cannot learn of it, and has lost
// its place in a queue.
func waiterCutOff(s *scenario) {
	c, o := s.client(), s.client()
	k := c.take()
	w := o.queue(s.kind)
	o.waits()
	if s.server.Queues {
		s.claimed(2)
	}
	o.mesh.Blackhole(true)
	k.mustUnlock()
	freed := time.Now()
	time.Sleep(s.on.freeAfter(s.ttl)) // how long the fault lasts
	o.mesh.Blackhole(false)
	back := time.Now()
	next := w.served()
	s.within("the waiter got the lock", time.Since(back), storeBack)
	s.waited(time.Since(freed), s.ttl)
	next.stays(s.ttl / 2)
	next.mustUnlock()
}

// restartedStore: the server comes back with its data, before the lease ends.
func restartedStore(s *scenario) {
	s.ttl = restartTTL
	c, o, third := s.client(), s.client(), s.other()
	k := c.take()
	w := o.queue(s.kind)
	o.waits()
	s.server.Kill()
	if err := s.server.Restart(); err != nil {
		s.Fatal(err)
	}
	c.renewed(k, 1)
	third.wantBusy()
	k.mustUnlock()
	w.served().mustUnlock()
}

// forcedUnnoticed: the lock is ended on purpose, and what the server says of that does
// not reach the holder.
func forcedUnnoticed(s *scenario) {
	c, o := s.client(), s.other()
	k := c.take()
	c.renewed(k, 1) // there is time until the next
	c.mesh.BlackholeReplies(true)
	o.force()
	forced := time.Now()
	next := o.take()
	c.mesh.BlackholeReplies(false)
	k.lost(forced, s.ttl/3+call)
	next.stays(s.ttl / 3)
	next.mustUnlock()
}

// lateAnswers: the server, or the way to it, is slow.
func lateAnswers(s *scenario) {
	c, o := s.client(), s.other()
	c.mesh.Latency(s.ttl / 20)
	k := c.take()
	c.renewed(k, 2)
	o.wantBusy()
	k.mustUnlock()
}
