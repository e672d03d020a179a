package holdfast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/renew"
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
		if refused[l.claim.Owner] || !forced && (owner != l.claim.Owner || !time.Now().Before(ends)) {
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
			fmt.Fprintf(&b, " %s %d %v %d %v", s.numberOf(l.claim.Owner), l.state, w.lock.hold.err, l.handoffs, (l.deadline - s.locker.clock.Now()).Truncate(statesPause))
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
		s.seen.handoffs += int(l.handoffs)
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
