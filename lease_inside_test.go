package holdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/renew"
	"github.com/holdfast-go/holdfast/internal/retry"
	"github.com/holdfast-go/holdfast/memhold"
)

// What follows executes the table of lease.go. Two holders of one process want a name, in a
// store that answers each call when the test lets it. The test goes through all orders of
// events, up to so many steps, and checks the states after each step.

const (
	statesDepth  = 8               // the steps of a sequence between its beginning and its end
	statesRounds = 2               // how often each holder locks, at most
	statesTTL    = 3 * time.Second // renewals follow every second, the first one sooner
	statesPause  = time.Second     // the length of the step in which time passes
	statesPauses = 4               // how often that step is possible: a lease that was renewed is over after that
)

var errScripted = errors.New("the reply was lost")

// scripted is a store whose calls wait until the test answers them.
type scripted struct {
	mu      sync.Mutex
	parked  []*scriptedCall
	owner   string // "" if the name is free
	ends    time.Time
	token   uint64
	forced  bool
	refused map[string]bool // owners that got the answer that their claim is gone
	changed chan struct{}   // closed when the name may be free
}

// scriptedCall is a call that waits for its answer.
type scriptedCall struct {
	op    string
	claim driver.Claim
	reply chan bool // true: the reply arrives
	out   driver.Outcome
	err   error
}

func newScripted() *scripted {
	return &scripted{refused: make(map[string]bool), changed: make(chan struct{})}
}

func (s *scripted) Info() driver.Info {
	return driver.Info{Name: "script", Caps: driver.Caps{Fencing: true, ExpiresAlone: true, Wakes: true, Tombstones: true}}
}

// wait waits until a call is answered or given up.
func (s *scripted) wait(ctx context.Context, op string, c driver.Claim) (driver.Outcome, error) {
	call := &scriptedCall{op: op, claim: c, reply: make(chan bool, 1)}
	s.mu.Lock()
	s.parked = append(s.parked, call)
	s.mu.Unlock()
	select {
	case arrives := <-call.reply:
		if !arrives {
			return driver.Outcome{}, errScripted
		}
		return call.out, call.err
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parked = slices.DeleteFunc(s.parked, func(p *scriptedCall) bool { return p == call })
		return driver.Outcome{}, ctx.Err()
	}
}

func (s *scripted) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	return s.wait(ctx, "try", c)
}

func (s *scripted) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	out, err := s.wait(ctx, "renew", cs[0])
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return nil, err
	}
	return []driver.Renewal{{ValidFor: out.ValidFor, Err: err}}, nil
}

func (s *scripted) Release(ctx context.Context, c driver.Claim) error {
	_, err := s.wait(ctx, "release", c)
	return err
}

func (s *scripted) Waiter(driver.Claim) driver.Waiter { return scriptedWaiter{s} }

type scriptedWaiter struct{ store *scripted }

func (w scriptedWaiter) Wait(ctx context.Context, _ driver.Outcome) (driver.Outcome, error) {
	w.store.mu.Lock()
	changed := w.store.changed
	w.store.mu.Unlock()
	select {
	case <-changed:
		return driver.Outcome{}, nil
	case <-ctx.Done():
		return driver.Outcome{}, ctx.Err()
	}
}

func (scriptedWaiter) Close() {}

// free makes the name free. The mutex is held.
func (s *scripted) free() {
	s.owner = ""
	close(s.changed)
	s.changed = make(chan struct{})
}

// answer executes a call that waits. Its reply arrives only if arrives is true.
func (s *scripted) answer(call *scriptedCall, arrives bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = slices.DeleteFunc(s.parked, func(p *scriptedCall) bool { return p == call })
	if s.owner != "" && !time.Now().Before(s.ends) {
		s.free()
	}
	mine := s.owner == call.claim.Owner
	switch {
	case call.op == "try" && (mine || s.owner == ""):
		s.token++
		call.out = driver.Outcome{Granted: true, Token: s.token, ValidFor: statesTTL}
		s.token += uint64(call.claim.Tokens)
		s.owner, s.ends = call.claim.Owner, time.Now().Add(statesTTL)
	case call.op == "try":
		call.out = driver.Outcome{RetryAfter: time.Until(s.ends), Holder: "another"}
	case !mine:
		call.err = &driver.GoneError{Reason: driver.ReasonExpired}
		if s.forced {
			call.err = &driver.GoneError{Reason: driver.ReasonForced}
		}
	case call.op == "renew":
		call.out.ValidFor, s.ends = statesTTL, time.Now().Add(statesTTL)
	default:
		s.free()
	}
	if call.err != nil && arrives {
		s.refused[call.claim.Owner] = true
	}
	call.reply <- arrives
}

// force ends the hold of the name by force.
func (s *scripted) force() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forced = true
	s.free()
}

// statesBegin returns the beginnings of sequences: none, or a holder whose lease can be
// passed on to a waiter.
func statesBegin() [][]string {
	return [][]string{nil, {"A locks", "try 1 answered", "B locks", "A unlocks", "release 1 answered", "try 2 answered", "A locks"}}
}

// worker is a goroutine that locks and unlocks.
type worker struct {
	stage  string // idle, locking, holding, unlocking
	rounds int
	lock   *Lock // the last one
	unlock chan struct{}
}

// sequence is a number of steps, one after the other, and their effects.
type sequence struct {
	t       *testing.T
	store   *scripted
	locker  *Locker
	workers map[string]*worker
	mu      sync.Mutex // guards workers
	pauses  int
	forces  int
	states  map[*lease]leaseState
	seen    *seen
	trace   []string
}

// seen is what all sequences together have reached.
type seen struct {
	moves    map[string]int // changes of a lease's state, by "from to"
	handoffs int            // leases that were passed on
	lost     map[driver.Reason]int

	lapsed int // sequences that went another way when they were repeated
}

func newSequence(t *testing.T, all *seen) *sequence {
	store := newScripted()
	s := &sequence{t: t, store: store, locker: New(store, &Options{TTL: statesTTL}), states: map[*lease]leaseState{}, seen: all}
	s.workers = map[string]*worker{"A": {stage: "idle"}, "B": {stage: "idle"}}
	return s
}

// lock makes a worker lock.
func (s *sequence) lock(w *worker) {
	w.stage, w.unlock = "locking", make(chan struct{})
	w.rounds++
	go func() {
		k, err := s.locker.Lock(context.Background(), "job")
		s.mu.Lock()
		if err != nil {
			s.t.Errorf("Lock: %v; after %v", err, s.trace)
		}
		w.lock, w.stage = k, "holding"
		s.mu.Unlock()
		<-w.unlock
		err = k.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		w.stage = "idle"
		s.unlocked(k, err)
	}()
}

// unlocked checks the result of an Unlock.
func (s *sequence) unlocked(k *Lock, err error) {
	var lost *LostError
	switch {
	case errors.As(err, &lost):
		s.seen.lost[lost.Reason]++
		if s.forces == 0 && s.pauses == 0 {
			s.t.Errorf("%v without a cause; after %v", err, s.trace)
		}
	case err == nil && !errors.Is(k.Err(), ErrUnlocked):
		s.t.Errorf("Unlock returned nil, Err %v; after %v", k.Err(), s.trace)
	case err != nil && !errors.Is(err, errScripted) && !errors.Is(err, context.DeadlineExceeded):
		s.t.Errorf("Unlock: %v; after %v", err, s.trace)
	}
}

// steps returns the steps that are possible now, by name.
func (s *sequence) steps() map[string]func() {
	out := map[string]func(){}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.workers {
		switch w.stage {
		case "idle":
			if w.rounds < statesRounds && (name == "A" || s.workers["A"].rounds > 0) { // the first is called A
				out[name+" locks"] = func() { s.lock(w) }
			}
		case "holding":
			out[name+" unlocks"] = func() { w.stage = "unlocking"; close(w.unlock) }
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, call := range s.store.parked {
		name := call.op + " " + s.numberOf(call.claim.Owner)
		out[name+" answered"] = func() { s.store.answer(call, true) }
		out[name+" executed, reply lost"] = func() { s.store.answer(call, false) }
	}
	if s.store.owner != "" && s.forces == 0 {
		out["force"] = func() { s.forces++; s.store.force() }
	}
	if s.pauses < statesPauses {
		out["time passes"] = func() { s.pauses++; time.Sleep(statesPause) }
	}
	return out
}

// do takes a step and checks its effects. It returns false if the step is not possible.
func (s *sequence) do(name string) bool {
	step, ok := s.steps()[name]
	if !ok {
		return false
	}
	s.trace = append(s.trace, name)
	step()
	synctest.Wait()
	s.check()
	return true
}

// check compares the state of the holders with the store, and the leases with the table.
func (s *sequence) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.mu.Lock()
	owner, ends, forced, refused := s.store.owner, s.store.ends, s.store.forced, maps.Clone(s.store.refused)
	s.store.mu.Unlock()
	believers := 0
	for name, w := range s.workers {
		if w.lock == nil {
			continue
		}
		l := w.lock.hold.lease
		s.follow(l)
		if w.lock.Err() != nil {
			continue
		}
		s.follow(l)
		believers++
		if refused[l.owner] || !forced && (owner != l.owner || !time.Now().Before(ends)) {
			s.t.Errorf("%s believes that it holds the lock, and the store has %q until %v; after %v", name, owner, time.Until(ends), s.trace)
		}
	}
	if believers > 1 {
		s.t.Errorf("two holders; after %v", s.trace)
	}
	a, b := s.workers["A"].lock, s.workers["B"].lock
	if a != nil && b != nil && a.Token() == b.Token() {
		s.t.Errorf("both have the token %d; after %v", a.Token(), s.trace)
	}
}

// follow records the state of a lease, and checks that the table allows the change.
func (s *sequence) follow(l *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, known := s.states[l]
	s.states[l] = l.state
	if !known {
		from = leaseHeld
	}
	if from == l.state {
		return
	}
	s.seen.moves[fmt.Sprint(from, l.state)]++
	for e := range leaseEvents {
		if next, ok := from.after(e); ok && next == l.state {
			return
		}
	}
	s.t.Errorf("the table does not lead from %d to %d; after %v", from, l.state, s.trace)
}

// signature returns all that decides what can come next: of two sequences with the same
// signature, one need not be continued.
func (s *sequence) signature() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range []string{"A", "B"} {
		w := s.workers[name]
		fmt.Fprintf(&b, "%s %s %d", name, w.stage, w.rounds)
		if w.lock != nil {
			l := w.lock.hold.lease
			l.mu.Lock()
			fmt.Fprintf(&b, " %s %d %v %d %v", s.numberOf(l.owner), l.state, w.lock.hold.err, l.holder.token-l.first.token, (l.deadline - s.locker.clock.Now()).Truncate(statesPause))
			l.mu.Unlock()
		}
		b.WriteByte('\n')
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	left := time.Duration(0)
	if s.store.owner != "" {
		left = time.Until(s.store.ends).Round(time.Second)
	}
	fmt.Fprintf(&b, "store %s %v, forced %v, pauses %d\n", s.numberOf(s.store.owner), left, s.store.forced, s.pauses)
	for _, call := range s.store.parked {
		fmt.Fprintf(&b, "%s %s %v\n", call.op, s.numberOf(call.claim.Owner), call.claim.Indeterminate)
	}
	return b.String()
}

// numberOf returns the number of the claim of an owner.
func (s *sequence) numberOf(owner string) string { return strings.TrimPrefix(owner, s.locker.id+":") }

// finish brings the sequence to its end: all workers that locked also unlock, and each call
// is answered.
func (s *sequence) finish() {
	for range 200 {
		s.mu.Lock()
		ended := true
		for _, w := range s.workers {
			if w.stage == "holding" {
				w.stage = "unlocking"
				close(w.unlock)
			}
			ended = ended && w.stage == "idle"
		}
		s.mu.Unlock()
		synctest.Wait()
		s.check()
		s.store.mu.Lock()
		parked := slices.Clone(s.store.parked)
		s.store.mu.Unlock()
		switch {
		case len(parked) > 0:
			s.store.answer(parked[0], true)
		case ended && s.locker.background.Wait(expiredContext()) == nil:
			s.ended()
			return
		default:
			time.Sleep(time.Second)
		}
	}
	s.t.Fatalf("no end after %v: %s", s.trace, s.signature())
}

// begun returns the number of steps of the beginning.
func (s *sequence) begun() int {
	for _, begin := range statesBegin() {
		if len(begin) > 0 && len(s.trace) >= len(begin) && slices.Equal(s.trace[:len(begin)], begin) {
			return len(begin)
		}
	}
	return 0
}

// ended checks what is left at the end.
func (s *sequence) ended() {
	if s.store.owner != "" && time.Now().Before(s.store.ends) {
		s.t.Errorf("the store keeps %s; after %v", s.store.owner, s.trace)
	}
	for l := range s.states {
		s.seen.handoffs += int(l.holder.token - l.first.token)
	}
	if n := s.locker.renewals.Find(func(renew.Item) bool { return true }); n != nil {
		s.t.Errorf("a lease is renewed still; after %v", s.trace)
	}
}

// TestLeaseStates goes through all orders of locking, renewing, passing on, losing,
// unlocking and forcing, for two holders, and follows each lease through the table.
func TestLeaseStates(t *testing.T) {
	all := &seen{moves: map[string]int{}, lost: map[driver.Reason]int{}}
	known, sequences := map[string]bool{}, 0
	for paths := statesBegin(); len(paths) > 0; {
		var longer [][]string
		for _, path := range paths {
			sequences++
			for _, next := range statesAfter(t, all, path, known) {
				longer = append(longer, append(slices.Clone(path), next))
			}
			if t.Failed() {
				return
			}
		}
		paths = longer
	}
	t.Logf("%d sequences of up to %d steps (%d lapsed), %d situations; changes of state %v, %d times passed on, lost: %v",
		sequences, statesDepth, all.lapsed, len(known), all.moves, all.handoffs, all.lost)
	want := map[string]bool{}
	for s := leaseHeld; s <= leaseReleased; s++ {
		for e := range leaseEvents {
			if next, ok := s.after(e); ok && next != s {
				want[fmt.Sprint(s, next)] = true
			}
		}
	}
	for change := range want {
		if all.moves[change] == 0 {
			t.Errorf("no sequence led from state to state %s", change)
		}
	}
	if all.handoffs == 0 || len(all.lost) < 2 {
		t.Errorf("passed on %d times, lost for %v", all.handoffs, slices.Collect(maps.Keys(all.lost)))
	}
}

// statesAfter runs a sequence, and returns the steps that can follow. It returns none if
// the signature is known.
func statesAfter(t *testing.T, all *seen, path []string, known map[string]bool) (next []string) {
	synctest.Test(t, func(t *testing.T) {
		s := newSequence(t, all)
		for _, name := range path {
			if !s.do(name) { // not always the same: calls are repeated after random delays
				all.lapsed++
				break
			}
		}
		if at := s.signature(); len(s.trace) == len(path) && !known[at] {
			known[at] = true
			if len(path) < statesDepth+s.begun() {
				next = slices.Sorted(maps.Keys(s.steps()))
			}
		}
		s.finish()
	})
	return next
}

// expiredContext returns a context that has ended.
func expiredContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// While a machine is suspended, the monotonic clock, which is the clock of the test, stands
// still, and the wall clock runs.
func TestSuspendedMachineAsksBeforeItTrusts(t *testing.T) {
	for name, test := range map[string]struct {
		lost bool
		opts []Option
	}{
		"still held":             {false, nil},
		"lost meanwhile":         {true, nil},
		"AtMost, still held":     {false, []Option{AtMost(time.Minute)}},
		"AtMost, lost meanwhile": {true, []Option{AtMost(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			lost := test.lost
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				store := memhold.New()
				l := New(store, nil)
				l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				lock, err := l.Lock(t.Context(), "job", test.opts...)
				if err != nil {
					t.Fatal(err)
				}
				if err := lock.Err(); err != nil {
					t.Fatal(err)
				}
				ahead.Store(int64(time.Hour))
				if lost {
					store.Drop("job")
				}
				if err := lock.Err(); !errors.Is(err, errSuspended) {
					t.Errorf("first check after an hour of suspension: got %v, want doubt", err)
				}
				synctest.Wait()
				switch err := lock.Err(); {
				case lost && !errors.Is(err, ErrLost):
					t.Errorf("after asking: got %v, want ErrLost", err)
				case !lost && err != nil:
					t.Errorf("after asking: got %v, want held", err)
				}
				_ = lock.Unlock()
			})
		})
	}
}

// Contexts end even if Err is not called.
func TestSuspensionIsNoticedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		store := memhold.New()
		l := New(store, nil)
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		ctx := lock.Context(t.Context())
		time.Sleep(1500 * time.Millisecond)
		store.Drop("job")
		ahead.Store(int64(time.Hour))
		start := time.Now()
		<-ctx.Done()
		if took := time.Since(start); took > renew.TickMost {
			t.Errorf("noticed after %v, want at most %v", took, renew.TickMost)
		}
		_ = lock.Unlock()
	})
}

// A step of the wall clock causes one renewal, and no loss.
func TestWallClockStepsAreHarmless(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var ahead atomic.Int64
			l := New(memhold.New(), nil)
			l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				ahead.Store(int64(i%2) * int64(step))
				time.Sleep(20 * time.Second)
				if err := lock.Err(); err != nil {
					t.Fatalf("step of %v: %v", step, err)
				}
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A Lock that became unreachable is not renewed. The Locks of a LockAll are found together, when
// all of them are unreachable: also if some of them were unlocked before.
func TestDroppedLockIsNotRenewed(t *testing.T) {
	store := memhold.New()
	l := New(store, &Options{TTL: 300 * time.Millisecond})
	all := func(names ...string) Locks {
		var ms []*Mutex
		for _, name := range names {
			ms = append(ms, l.Mutex(name))
		}
		locks, err := LockAll(t.Context(), ms)
		if err != nil {
			t.Fatal(err)
		}
		return locks
	}
	kept := all("kept", "kept, too")[0]
	if err := all("all 1", "all 2", "all 3")[0].Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := all("some 1", "some 2", "some 3")[:2].Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	names := []string{"job", "all 1", "all 2", "all 3", "some 1", "some 2", "some 3"}
	deadline := time.Now().Add(10 * time.Second)
	for {
		runtime.GC()
		if records, err := store.Get(t.Context(), names...); err != nil || !slices.ContainsFunc(records, func(r admin.Record) bool { return r.Holders != 0 }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("still renewed")
		}
		runtime.Gosched()
	}
	if records, err := store.Get(t.Context(), "kept", "kept, too"); err != nil || records[0].Holders+records[1].Holders != 2 {
		t.Errorf("got %+v, error %v, want both held: one Lock is still reachable", records, err)
	}
	if err := kept.Unlock(); err != nil {
		t.Error(err)
	}
}

// logged are the lines of a log.
type logged chan string

// Write implements io.Writer.
func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// A Lock with the option FixedLease may be dropped, so that it ends by itself: that is no error.
func TestDroppedLockWithALeaseIsNoError(t *testing.T) {
	lines := make(logged, 100)
	l := New(memhold.New(), &Options{Logger: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if _, err := l.Lock(t.Context(), "job", FixedLease(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		select {
		case line := <-lines:
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
				t.Errorf("got %s, want neither a warning nor an error", line)
			}
			if strings.Contains(line, "dropped without Unlock") {
				if err := l.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				return
			}
		default:
		}
	}
	t.Fatal("it was not noticed")
}

// A Locker keeps no resources after its last lock has ended.
func TestIdleLockerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		for range 100 {
			lock, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the bubble ends with a panic if a goroutine is left
		if n := queuesOf(l); n != 0 {
			t.Errorf("%d queues left", n)
		}
		time.Sleep(2 * renew.TickMost)
		synctest.Wait()
		if k := l.renewals.Find(func(renew.Item) bool { return true }); k != nil {
			t.Errorf("%q is still renewed", k.(*lease).name)
		}
	})
}

// A caller that checks a lock after its deadline gets the loss, even if no timer has fired
// yet. No later answer brings the lock back.
func TestDeadlineNeedsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		for name, look := range map[string]func(*Lock) bool{
			"Err":       func(k *Lock) bool { return errors.Is(k.Err(), ErrLost) },
			"Remaining": func(k *Lock) bool { return k.Remaining() == 0 },
			"Context":   func(k *Lock) bool { return k.Context(t.Context()).Err() != nil },
			"a late call": func(k *Lock) bool {
				_, held := k.hold.lease.Answered(l.clock.Read(), driver.Renewal{ValidFor: time.Hour})
				return !held
			},
		} {
			k, err := l.Lock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			k.hold.lease.mu.Lock()
			k.hold.lease.deadline = l.clock.Now()
			k.hold.lease.mu.Unlock()
			if !look(k) {
				t.Errorf("%s says that a lock past its deadline is held", name)
			}
			if err := k.Unlock(); !errors.Is(err, ErrLost) {
				t.Errorf("%s: Unlock: got %v, want ErrLost", name, err)
			}
		}
	})
}

// frozenNode is a store of two nodes, one of which hangs. A call ends when both have
// answered, or with its context.
type frozenNode struct {
	*memhold.Backend

	mu      sync.Mutex
	failed  map[string]bool
	mixed   int           // calls with claims of the healthy node beside some that had failed before
	slowest time.Duration // of the calls with claims of the healthy node
}

func (s *frozenNode) Renew(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	start := time.Now()
	answers, err := s.Backend.Renew(ctx, cs)
	if err != nil {
		return nil, err
	}
	healthy, frozen, again := false, false, false
	s.mu.Lock()
	for i, c := range cs {
		if !strings.HasPrefix(c.Name, "frozen") {
			healthy = true
			continue
		}
		answers[i] = driver.Renewal{Err: errors.New("no answer from the node")}
		frozen, again = true, again || s.failed[c.Name]
		s.failed[c.Name] = true
	}
	s.mu.Unlock()
	if frozen {
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if healthy && again {
		s.mixed++
	}
	if healthy {
		s.slowest = max(s.slowest, time.Since(start))
	}
	return answers, nil
}

// Locks on healthy nodes do not share calls with locks whose renewals have failed, also if
// all are due at once. Each renewal waits for a node no longer than a first attempt does.
// attempt does.
func TestFrozenNodeSharesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &frozenNode{Backend: memhold.New(), failed: make(map[string]bool)}
		l := New(store, &Options{TTL: 30 * time.Second})
		var ahead atomic.Int64
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		var locks []*Lock
		for i := range 100 {
			for _, node := range []string{"healthy", "frozen"} {
				lock, err := l.Lock(t.Context(), fmt.Sprint(node, " ", i))
				if err != nil {
					t.Fatal(err)
				}
				locks = append(locks, lock)
			}
		}
		for range 6 {
			time.Sleep(4 * time.Second)
			ahead.Add(int64(2 * time.Second)) // a step of the clock: all are due
		}
		store.mu.Lock()
		if store.mixed > 0 {
			t.Errorf("%d calls carried healthy leases beside some whose renewal had failed before", store.mixed)
		}
		if limit := retry.Timeout(30*time.Second, 0); store.slowest > limit {
			t.Errorf("a healthy lease was renewed after %v, want %v at most", store.slowest, limit)
		}
		store.mu.Unlock()
		for _, lock := range locks {
			_ = lock.Unlock()
		}
	})
}

// lateness collects the reports of renewals.
type lateness struct {
	log bytes.Buffer

	mu       sync.Mutex
	renewals []Event
}

func (r *lateness) options() *Options {
	return &Options{
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Observe: func(_ context.Context, e Event) {
			if e.Type == EventRenew {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.renewals = append(r.renewals, e)
			}
		},
	}
}

// late fails unless want renewals were reported as late, in all reports. It returns how
// much of the lease was left, by the events.
func (r *lateness) late(t *testing.T, want int) (left time.Duration) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	if got := strings.Count(r.log.String(), "renewal late"); got != want {
		t.Errorf("%d warnings, want %d:\n%s", got, want, r.log.String())
	}
	events := 0
	r.mu.Lock()
	for _, e := range r.renewals {
		if e.Late {
			events++
			left = e.Remaining
		}
	}
	r.mu.Unlock()
	if events != want {
		t.Errorf("%d events say late, want %d", events, want)
	}
	return left
}

// A store that grants a fair lock at the release of another grants it for a short time, as
// Redis does. Its early renewal is not reported as late.
func TestShortGrantIsNotRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		store := &shortGrants{Backend: memhold.New(), after: 500 * time.Millisecond, validFor: 4 * time.Second}
		l := New(store, r.options())
		lock, err := l.FairMutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.late(t, 0)
		_ = lock.Unlock()
	})
}

// If its renewals fail until little is left, it is late, and the figures are those of the
// short lease.
func TestShortGrantThatIsRenewedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		store := &shortGrants{Backend: memhold.New(), after: 500 * time.Millisecond, validFor: 4 * time.Second, deaf: 2600 * time.Millisecond}
		l := New(store, r.options())
		began := time.Now()
		lock, err := l.FairMutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		left := r.late(t, 1)
		if left <= 0 || left > 4*time.Second-2600*time.Millisecond {
			t.Errorf("the events say that %v were left of a lease of 4s that was renewed 2.6s after it began, %v ago", left, time.Since(began))
		}
		_ = lock.Unlock()
	})
}

// After a step of the wall clock the Locker renews its locks. That does not extend a lock
// with a fixed end, so it is never late.
func TestFixedLeaseIsNeverLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r lateness
		var ahead atomic.Int64
		l := New(memhold.New(), r.options())
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job", FixedLease(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(55 * time.Second)
		ahead.Store(int64(2 * time.Second)) // more than half of the margin, less than what is left
		time.Sleep(1500 * time.Millisecond)
		r.mu.Lock()
		asked := len(r.renewals)
		r.mu.Unlock()
		if asked == 0 {
			t.Error("the store was not asked after the clock was set: this test tests nothing")
		}
		_ = lock.Unlock()
		r.late(t, 0)
	})
}

// shortGrants is a store that refuses the first try of a fair claim, and grants it for a
// short time while it waits.
type shortGrants struct {
	*memhold.Backend
	after, validFor time.Duration
	deaf            time.Duration // after the grant, renewals are not answered for so long

	granted time.Time
}

func (s *shortGrants) Try(context.Context, driver.Claim) (driver.Outcome, error) {
	return driver.Outcome{RetryAfter: time.Minute}, nil
}

func (s *shortGrants) Renew(_ context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
	if time.Since(s.granted) < s.deaf {
		return nil, errors.New("connection reset")
	}
	return []driver.Renewal{{ValidFor: cs[0].TTL}}, nil
}

func (s *shortGrants) Release(context.Context, driver.Claim) error { return nil }

func (s *shortGrants) Waiter(driver.Claim) driver.Waiter { return shortGrant{s} }

type shortGrant struct{ *shortGrants }

func (w shortGrant) Wait(context.Context, driver.Outcome) (driver.Outcome, error) {
	time.Sleep(w.after)
	w.granted = time.Now()
	return driver.Outcome{Granted: true, Token: 7, ValidFor: w.validFor}, nil
}

func (w shortGrant) Close() {}

// The machine is suspended during a renewal.
func TestSuspendedDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		store := faulty.New()
		l := New(store, nil)
		l.clock.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		var at time.Time
		store.Change(func() {
			store.OnRenew = func(ctx context.Context, cs []driver.Claim) ([]driver.Renewal, error) {
				if !at.IsZero() {
					return store.Backend.Renew(ctx, cs)
				}
				a, err := store.Backend.Renew(ctx, cs)
				ahead.Store(int64(time.Hour))
				store.Drop("job")
				at = time.Now()
				k, _ := l.Lock(context.Background(), "other", FixedLease(time.Second)) // wakes the scheduler
				time.Sleep(10 * time.Millisecond)
				_ = k.Unlock()
				return a, err
			}
		})
		<-lock.Context(t.Context()).Done()
		t.Logf("noticed %v after the machine woke up (renew.TickMost is %v)", time.Since(at), renew.TickMost)
		if time.Since(at) > 2*renew.TickMost {
			t.Error("too late")
		}
		_ = lock.Unlock()
	})
}

// A lock is lost, and its holder unlocks it before the next goroutine may ask. The next
// goroutine waited without end.
func TestUnlockBetweenALossAndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(memhold.New(), nil)
		lock, err := l.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		next := make(chan error)
		go func() {
			lock, err := l.Lock(ctx, "job")
			if err == nil {
				err = lock.Unlock()
			}
			next <- err
		}()
		synctest.Wait()
		lease := lock.hold.lease
		_, _, _ = lease.end(nil, onLoss, &LostError{Name: "job", Reason: driver.ReasonExpired}) // its contexts end, too
		if err := lock.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock: got %v, want ErrLost", err)
		}
		lease.abandon(true)
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

// An Unlock of a lost lock waited for another goroutine of the call tree.
func TestUnlockOfALostLockWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l, other := New(store, nil), New(store, nil)
		ctx := WithOwner(t.Context())
		lock, _ := l.Lock(ctx, "job")
		records, _ := store.Get(ctx, "job")
		if err := store.ForceUnlock(ctx, "job", records[0].Holds[0].Holder, "x"); err != nil {
			t.Fatal(err)
		}
		o, err := other.Lock(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		<-lock.Context(t.Context()).Done() // lost, and known
		go func() {
			if k, err := l.Lock(ctx, "job"); err == nil {
				_ = k.Unlock()
			}
		}()
		synctest.Wait()
		start := time.Now()
		err = lock.Unlock()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("Unlock of a lost lock took %v: %v", d, err)
		}
		_ = o.Unlock()
		synctest.Wait()
	})
}

// slow is a store with a round trip of rtt. A call arrives after half of it, also if the
// caller has given up.
type slow struct {
	*memhold.Backend
	rtt      time.Duration
	releases int
}

func trip[T any](ctx context.Context, rtt time.Duration, fn func() (T, error)) (T, error) {
	type ans struct {
		v   T
		err error
	}
	ch := make(chan ans, 1)
	go func() {
		time.Sleep(rtt / 2)
		v, err := fn()
		time.Sleep(rtt / 2)
		ch <- ans{v, err}
	}()
	select {
	case a := <-ch:
		return a.v, a.err
	case <-ctx.Done():
		var z T
		return z, ctx.Err()
	}
}

func (s *slow) Try(ctx context.Context, c driver.Claim) (driver.Outcome, error) {
	return trip(ctx, s.rtt, func() (driver.Outcome, error) { return s.Backend.Try(context.Background(), c) })
}

func (s *slow) Renew(ctx context.Context, c []driver.Claim) ([]driver.Renewal, error) {
	return trip(ctx, s.rtt, func() ([]driver.Renewal, error) { return s.Backend.Renew(context.Background(), c) })
}

func (s *slow) Release(ctx context.Context, c driver.Claim) error {
	s.releases++
	_, err := trip(ctx, s.rtt, func() (int, error) { return 0, s.Backend.Release(context.Background(), c) })
	return err
}

func (s *slow) StartRelease(ctx context.Context, c driver.Claim) (finish func() (others int, err error)) {
	return func() (int, error) { return -1, s.Release(ctx, c) }
}

func TestUnlockOfASlowStore(t *testing.T) {
	for _, c := range []struct{ ttl, rtt time.Duration }{{30 * time.Second, 600 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{Backend: memhold.New(), rtt: c.rtt}
			l := New(s, &Options{TTL: c.ttl})
			k, err := l.Lock(t.Context(), "job")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * c.ttl)
			if err := k.Err(); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = k.Unlock()
			d := time.Since(start)
			_ = l.Drain(t.Context())
			defer time.Sleep(time.Hour)
			if err != nil {
				t.Errorf("TTL %v, round trip %v: Unlock after %v: %v; Drain %v, %d releases sent", c.ttl, c.rtt, d, err, time.Since(start), s.releases)
			}
		})
	}
}
