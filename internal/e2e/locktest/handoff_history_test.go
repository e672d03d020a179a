package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/redishold"
)

const (
	handoffTTL   = 500 * time.Millisecond
	handoffPause = 800 * time.Millisecond
)

// handoffRounds returns until when rounds of a history are repeated: one round,
// or as long as HOLDFAST_HISTORY says.
func handoffRounds(t testing.TB) (again func() bool) {
	t.Helper()
	limit := time.Duration(0)
	if text := os.Getenv("HOLDFAST_HISTORY"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("HOLDFAST_HISTORY: %v", err)
		}
		limit = d
	}
	start, first := time.Now(), true
	return func() bool {
		defer func() { first = false }()
		return first || time.Since(start) < limit && !t.Failed()
	}
}

// Processes whose goroutines pass locks on, killed and stopped in the middle of
// it: one lock with a lease and a token explains what all of them saw, tokens
// rise from holder to holder wherever these are, and nobody waits for long.
// HOLDFAST_HISTORY=10m repeats it for so long on each adapter.
func TestHandoffHistory(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		for again := handoffRounds(s); again(); {
			handoffRound(s)
		}
	})
}

func handoffRound(s *subject) {
	s.Helper()
	c := newCrew(s)
	hire := func() *member {
		return c.hire("handoff", plan{Actors: 4, TTL: handoffTTL, Seed: rand.Uint64()})
	}
	for range 3 {
		hire()
	}
	kills, pauses := c.disturb(9, 150*time.Millisecond, hire)
	c.stop()
	h := c.finish()

	swept := h.Check(judge.Rules{})
	if swept.Err() != nil {
		s.Errorf("violation: %v", swept.Err())
	}
	for _, v := range h.Overdue(2 * judge.NoticeSlack) {
		s.Errorf("violation: %v", v)
	}
	judged := h.Linearizable(20*time.Second, nil)
	if err := judged.Err(); err != nil {
		s.Errorf("violation: %v", err)
	}
	seen := lookAtChains(h)
	if seen.handed < 300 || seen.changes < 30 || kills < 5 || pauses < 4 || seen.broken < 2 {
		s.Errorf("%+v of %d holds, %d kills, %d pauses: too little to judge", seen, swept.Holds, kills, pauses)
	}
	if judged.Operations < 1000 || judged.Unknown > judged.Operations/5 {
		s.Errorf("%d operations, %d of them unknown: too little to judge", judged.Operations, judged.Unknown)
	}
	sleptLongest := time.Duration(0)
	for _, w := range h.Waits(0, func(string) bool { return true }) {
		sleptLongest = max(sleptLongest, h.Ran(w.Process, w.From, w.To))
	}
	within(s, "the longest wait for a free lock", sleptLongest, 2*time.Second)
	within(s, "the longest wait", seen.longest, 5*time.Second)
	gone(s, s.server.Admin, 2*time.Second)
	s.Logf("%d holds: %d passed on, %d from one process to another; %d kills, %d pauses, %d of them of a holder; longest wait %v, for a free lock %v; %d operations judged, %d of them unknown",
		swept.Holds, seen.handed, seen.changes, kills, pauses, seen.broken, seen.longest.Round(time.Millisecond), sleptLongest.Round(time.Millisecond), judged.Operations, judged.Unknown)
}

// chains is what a history shows of locks that were passed on.
type chains struct {
	handed  int           // holds
	changes int           // from a process to another
	broken  int           // holders that were killed, or stopped until they had lost the lock
	longest time.Duration // from the call to the grant, without the time in which the process did not run
}

// lookAtChains counts. A hold that has the token after that of another of its
// process was passed on: a grant of the store begins with a new block.
func lookAtChains(h *judge.History) (c chains) {
	byName := map[string][]judge.Operation{}
	for _, o := range h.Operations {
		if o.Granted == judge.Never {
			continue
		}
		byName[o.Name] = append(byName[o.Name], o)
		c.longest = max(c.longest, h.Ran(o.Process, o.Called, o.Granted))
		if o.Unlock == judge.Never && o.Killed != judge.Never || o.Notified < o.Unlock {
			c.broken++
		}
	}
	for _, ops := range byName {
		slices.SortFunc(ops, func(a, b judge.Operation) int { return int(a.Granted - b.Granted) })
		for i := 1; i < len(ops); i++ {
			switch {
			case ops[i].Process != ops[i-1].Process:
				c.changes++
			case ops[i].Token == ops[i-1].Token+1:
				c.handed++
			}
		}
	}
	return c
}

// disturb kills members and stops others for longer than a lease, by turns, half
// of them while they hold a lock. It hires others for those who are dead.
func (c *crew) disturb(times int, every time.Duration, hire func() *member) (kills, pauses int) {
	alive := slices.Clone(c.members)
	for n := range times {
		time.Sleep(every/2 + rand.N(every))
		i := rand.IntN(len(alive))
		if n%4 < 2 {
			i = c.stopHolder(alive)
		}
		if n%2 == 0 {
			alive[i].Kill()
			kills++
			alive[i] = hire()
			continue
		}
		alive[i].Pause()
		pauses++
		time.Sleep(handoffPause)
		alive[i].Resume()
	}
	return kills, pauses
}

// stopHolder stops a member that holds a lock, and returns its index. A hold is
// shorter than the way of its report, so that only a member that is stopped can be
// asked.
func (c *crew) stopHolder(members []*member) (i int) {
	c.s.Helper()
	ok := await.Eventually(10*time.Second, func() bool {
		i = rand.IntN(len(members))
		members[i].Pause()
		time.Sleep(2 * time.Millisecond) // its last reports arrive
		if members[i].holds() {
			return true
		}
		members[i].Resume()
		return false
	})
	if !ok {
		c.s.Fatal("no member was stopped while it held a lock")
	}
	return i
}

// holds says that the last report of a process was that it holds a lock.
func (m *member) holds() bool {
	held := 0
	for _, e := range m.Events() {
		switch e.What {
		case judge.Granted:
			held++
		case judge.Unlock:
			held--
		}
	}
	return held > 0
}

// Processes that want one lock all the time, without any fault: each gets its
// share, and nobody waits for long.
func TestHandoffHistoryShares(t *testing.T) {
	const processes = 4
	eachAdapter(t, func(s *subject) {
		c := newCrew(s)
		for range processes {
			c.hire("handoff", plan{Actors: 8, Name: "shared", Seed: rand.Uint64()})
		}
		for _, m := range c.members {
			m.await(judge.Granted)
		}
		from := time.Now().UnixNano()
		time.Sleep(1500 * time.Millisecond)
		to := time.Now().UnixNano()
		c.stop()
		h := c.finish()
		if err := h.Check(judge.Rules{}).Err(); err != nil {
			s.Errorf("violation: %v", err)
		}
		shares, all := make([]int, processes), 0
		for _, o := range h.Operations {
			if o.Granted > from && o.Granted < to {
				shares[o.Process]++
				all++
			}
		}
		seen := lookAtChains(h)
		if all < 200 || seen.handed < all/2 || seen.changes < 10 { // a busy machine has some hundred
			s.Errorf("%d holds, %+v: too little to judge", all, seen)
		}
		for p, n := range shares {
			if n < all/processes/4 {
				s.Errorf("process %d had %d of %d holds", p, n, all)
			}
		}
		within(s, "the longest wait", seen.longest, 2*time.Second)
		gone(s, s.server.Admin, 2*time.Second)
		s.Logf("%v of %d holds by process; %d passed on, %d from one process to another; longest wait %v", shares, all, seen.handed, seen.changes, seen.longest.Round(time.Millisecond))
	})
}

// chained is a process whose goroutines share a Locker.
type chained struct {
	*worker
	l *holdfast.Locker

	mu  sync.Mutex
	ops map[chainKey]holding // now
}

type holding struct {
	lock *holdfast.Lock
	op   int64
}

type chainKey struct {
	name  string
	token uint64
}

func useHandoff(w *worker) error {
	w.log.Watched, w.log.Given = true, true
	c := &chained{worker: w, ops: map[chainKey]holding{}}
	c.l = holdfast.New(redishold.New(w.conn, nil), &holdfast.Options{TTL: w.TTL, Observe: c.renewed})
	errs := make([]error, w.Actors)
	var wg sync.WaitGroup
	for range 3 { // one alone may be late itself
		wg.Go(w.watchTheClock)
	}
	for i := range w.Actors {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for w.ctx.Err() == nil && errs[i] == nil {
				errs[i] = c.use(random)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(append(errs, c.l.Drain(ctx))...)
}

// renewed writes down that the store has confirmed a hold.
func (c *chained) renewed(_ context.Context, e holdfast.Event) {
	if e.Type != holdfast.EventRenew || e.Err != nil {
		return
	}
	c.mu.Lock()
	h, held := c.ops[chainKey{e.Name, e.Token}]
	c.mu.Unlock()
	if !held {
		return // granted a moment ago, and not yet added
	}
	now := time.Now().UnixNano()
	if left := h.lock.Remaining(); left > 0 {
		c.log.Write(judge.Event{At: now, What: judge.Renewed, Op: h.op, Left: int64(left)})
	}
}

// use takes a lock once. Names change with time so that no history of one name
// gets long, unless the plan has one.
func (c *chained) use(random *rand.Rand) error {
	name, keep := c.Name, 200*time.Microsecond
	if name == "" {
		name = fmt.Sprintf("chain:%d:%d", time.Now().UnixMilli()/100, random.IntN(2))
		keep = time.Duration(500+random.IntN(3000)) * time.Microsecond
	}
	ctx := c.ctx
	impatient := c.Name == "" && random.IntN(100) < 2 // it is the next in line sometimes when it gives up
	if impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(10_000))*time.Microsecond)
		defer cancel()
	}
	a := judge.Request{Name: name, Side: judge.Exclusive, Lease: c.TTL, Lock: func(ctx context.Context) (*holdfast.Lock, error) { return c.l.Lock(ctx, name) }}
	k, op, err := c.log.Take(ctx, a)
	if err != nil {
		if impatient || c.ctx.Err() != nil {
			return nil
		}
		return err
	}
	key := chainKey{name, k.Token()}
	c.mu.Lock()
	c.ops[key] = holding{k, op}
	c.mu.Unlock()
	time.Sleep(keep)
	c.mu.Lock()
	delete(c.ops, key)
	c.mu.Unlock()
	return c.judged(c.log.Give(k, op)) // lost if the process was stopped
}

// watchTheClock writes down when the process did not run. It excuses a context
// that is a late notice, not a hold that lasted too long.
func (w *worker) watchTheClock() {
	const tick = 2 * time.Millisecond
	for last := time.Now(); w.ctx.Err() == nil; {
		time.Sleep(tick)
		now := time.Now()
		if late := now.Sub(last) - tick; late > time.Millisecond {
			w.log.Write(judge.Event{At: now.UnixNano(), What: judge.Stalled, Op: -1, Left: int64(late)})
		}
		last = now
	}
}
