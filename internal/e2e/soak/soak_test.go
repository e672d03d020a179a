package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

func TestMain(m *testing.M) {
	worker.Main(jobs())
	goleak.VerifyTestMain(m)
}

// A short soak with a fixed seed on every deployment: `make soak` runs longer.
// What explains a violation goes to the folder that SOAK_OUT names, or to a
// temporary one that the test names.
func TestSoak(t *testing.T) {
	await.NotShort(t, "a soak takes 20 s for each deployment")
	for _, name := range deployments() {
		t.Run(name, func(t *testing.T) {
			if runtime.NumCPU() >= 8 {
				t.Parallel()
			}
			s := soak{deployment: name, seed: 4, duration: 15 * time.Second, round: 15 * time.Second, out: os.Getenv("SOAK_OUT")}
			least := totals{Grants: 500, PassedOn: 50, Modelled: 100, Waits: 200, Calm: 100, ServerFaults: 3, Faults: map[string]int{"killed": 1, "stopped": 1}}
			if name == quorumOfFive { // each of its calls asks five servers
				least.PassedOn, least.Modelled, least.Waits, least.Calm = 0, 0, 100, 0
			}
			s.enough = least.within
			if total := judged(t, &s); s.arena.failsOver() && total.FailOvers < 1 {
				t.Error("no failover")
			}
		})
	}
}

// The same on each store that is no Redis, which `make stores` and `make stores-sql` run.
func TestSoakOfStores(t *testing.T) {
	await.NotShort(t, "a soak takes 20 s for each store")
	for _, name := range anystore.Names() {
		t.Run(name, func(t *testing.T) {
			least := totals{Grants: 500, Modelled: 100, Waits: 50, ServerFaults: 2}
			judged(t, &soak{deployment: name, seed: 4, duration: 15 * time.Second, round: 15 * time.Second, enough: least.within, out: os.Getenv("SOAK_OUT")})
		})
	}
}

// judged runs s, which has to do enough and to find no violation.
func judged(t *testing.T, s *soak) *totals {
	t.Helper()
	total := soaked(t, s)
	wantNoViolation(t, total)
	if !s.enough(total) {
		t.Errorf("too little to judge")
	}
	var table bytes.Buffer
	report(&table, []*totals{total}, false, json.NewEncoder(&table))
	t.Log(table.String())
	return total
}

// wantNoViolation separates violations of holders, tokens and writes from what a busy
// machine can raise: late notices and wake-ups, what is left at rest, and doubts.
func wantNoViolation(t *testing.T, total *totals) {
	t.Helper()
	if n := total.grave(); n > 0 {
		t.Errorf("violation: %d, see %q, leaks %q", n, total.Folders, total.Leaks)
	}
	if n := total.bad() - total.grave() - len(total.doubts()); n > 0 {
		t.Errorf("late or left: %d, %v and %q, see %q", n, total.Violations, total.Other, total.Folders)
	}
	for _, doubt := range total.doubts() {
		t.Errorf("doubt: %s", doubt)
	}
}

// within reports that at least as much as in t was done, with 15 faults, and those of t.
func (t *totals) within(done *totals) bool {
	faults := 0
	for _, n := range done.Faults {
		faults += n
	}
	for what, n := range t.Faults {
		if done.Faults[what] < n {
			return false
		}
	}
	return faults >= 15 && done.Grants >= t.Grants && done.PassedOn >= t.PassedOn && done.Modelled >= t.Modelled && done.Waits >= t.Waits && done.Calm >= t.Calm && done.ServerFaults >= t.ServerFaults
}

// soaked runs s, and skips t where there is no such store, unless CI is set.
func soaked(t *testing.T, s *soak) *totals {
	t.Helper()
	var log bytes.Buffer
	s.log = &log
	total, err := s.run(t.Context())
	missing := errors.Is(err, anystore.ErrMissing) || errors.Is(err, redistest.ErrMissing)
	if missing && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if total == nil || err != nil && s.mutant == "" {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return total
}

// The judge also finds out what is wrong with those who use a store that queues, and one
// that does not.
func TestJudgeFindsMutantsOfStores(t *testing.T) {
	await.Nightly(t, "a minute")
	for _, k := range []*anystore.Kind{anystore.Etcd(), anystore.PostgreSQL()} {
		for mistake, kind := range map[string]judge.Kind{lazy: judge.Overlap, generous: judge.Overlap, stuck: judge.Token} {
			if k.Queues && mistake == lazy {
				continue // the session, which other claims of the client keep, is what counts
			}
			t.Run(k.Name+"/"+mistake, func(t *testing.T) {
				total := soaked(t, &soak{
					deployment: k.Name, seed: 3, duration: 12 * time.Second, round: 12 * time.Second,
					enough: func(done *totals) bool { return done.Violations[kind] > 0 }, // little happens on a busy machine
					out:    t.TempDir(), only: mutexes, mutant: mistake, quiet: true,
				})
				if total.Violations[kind] == 0 {
					t.Errorf("no violation of kind %v, but %v and %v", kind, total.Violations, total.Other)
				}
				t.Logf("%v, of %d operations", total.Violations, total.Operations)
			})
		}
	}
}

// The judge finds out what is wrong with workers, although there are faults.
func TestJudgeFindsMutants(t *testing.T) {
	await.Nightly(t, "a minute")
	for mistake, test := range map[string]struct {
		kinds []judge.Kind // one of which has to be found
		only  string
		peace bool // a stuck place in a queue is excused after faults
	}{
		deaf:     {[]judge.Kind{judge.Sleeping}, mutexes, false},
		lazy:     {[]judge.Kind{judge.Overlap}, mutexes, false},
		generous: {[]judge.Kind{judge.Overlap}, mutexes, false},
		untidy:   {[]judge.Kind{judge.Sleeping}, fairs, true},
		stuck:    {[]judge.Kind{judge.Token, judge.Order}, mutexes, false},
	} {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			total := soaked(t, &soak{
				deployment: string(redistest.Standalone), seed: 3, duration: 10 * time.Second, round: 10 * time.Second,
				out: t.TempDir(), only: test.only, mutant: mistake, peace: test.peace, quiet: true,
			})
			n := 0
			for _, k := range test.kinds {
				n += total.Violations[k]
			}
			if n == 0 {
				t.Errorf("no violation of kind %v, but %v and %v", test.kinds, total.Violations, total.Other)
			}
			t.Logf("%v, of %d operations, after %v", total.Violations, total.Operations, total.Duration)
		})
	}
}

// The judge finds a store that notifies nobody after a quiet release. On a busy machine few
// releases are quiet, so this may take several tries.
func TestJudgeFindsAMuteStore(t *testing.T) {
	await.Nightly(t, "up to two minutes")
	for seed := range uint64(20) {
		total := soaked(t, &soak{
			deployment: string(redistest.Standalone), seed: seed, duration: 10 * time.Second, round: 10 * time.Second,
			out: t.TempDir(), only: bursts, mutant: mute, peace: true, quiet: true,
		})
		if total.Violations[judge.Sleeping] > 0 {
			t.Logf("%v, of %d operations, with seed %d", total.Violations, total.Operations, seed)
			return
		}
	}
	t.Error("no violation")
}

// What is drawn depends on the seed alone.
func TestSameSeedSameFaults(t *testing.T) {
	draws := func(seed uint64) (all []string) {
		n := &nemesis{arena: &arena{name: "cluster"}}
		for lane := range 4 {
			r := randFor(seed, lane)
			for range 50 {
				s := n.draw(r, n.lanes()[lane])
				all = append(all, fmt.Sprint(s.fault.name, s.aimed, s.after, s.place, s.length, s.pick))
			}
		}
		return all
	}
	a, b, c := draws(1), draws(1), draws(2)
	if strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("the same seed gave other faults")
	}
	if strings.Join(a, "\n") == strings.Join(c, "\n") {
		t.Error("two seeds gave the same faults")
	}
}

// In the calm at the end of a round nothing excuses a free lock that is not taken,
// but a waiter that did not run.
func TestWaitsInTheCalm(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, process int) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms, Token: uint64(process), Process: process, Try: process == 1}
	}
	for name, test := range map[string]struct {
		freed, granted int64
		fault          window
		stalled        int64
		measured       int
		want           int // violations
	}{
		"in time":                        {5000, 5100, window{from: 0, to: 1000 * ms, process: 1}, 0, 1, 0},
		"late":                           {5000, 7000, window{from: 0, to: 1000 * ms, process: 1}, 0, 1, 1},
		"late as it did not run":         {5000, 7000, window{from: 0, to: 1000 * ms, process: 1}, 900, 1, 0},
		"free since the fault":           {500, 5000, window{from: 0, to: 1000 * ms, process: -1}, 0, 1, 1},
		"during the fault":               {500, 2900, window{from: 0, to: 1000 * ms, process: -1}, 0, 0, 0},
		"a fault of the one who waited":  {500, 2900, window{from: 0, to: 1000 * ms, process: 2}, 0, 0, 0},
		"a fault of one who had not":     {500, 2900, window{from: 0, to: 1000 * ms, process: 7}, 0, 1, 1},
		"a fault of one who was through": {500, 2900, window{from: 2000 * ms, to: 2100 * ms, process: 1}, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{fencing: true, windows: []window{test.fault}, history: judge.New([]judge.Event{
				event(100, judge.Called, 1), event(110, judge.Granted, 1), event(test.freed-10, judge.Unlock, 1), event(test.freed, judge.Unlocked, 1),
				event(200, judge.Called, 2), event(test.granted, judge.Granted, 2), event(test.granted+10, judge.Unlock, 2), event(test.granted+11, judge.Unlocked, 2),
				{At: (test.granted - 10) * ms, What: judge.Stalled, Op: -1, Process: 2, Left: test.stalled * ms},
			})}
			var v verdict
			r.judgeWaits(&v)
			if v.quiet != test.measured || len(v.violations) != test.want {
				t.Errorf("got %d waits measured, %d excused, %d violations, want %d measured, %d violations", v.quiet, v.excused, len(v.violations), test.measured, test.want)
			}
		})
	}
}

// A Mutex that is free in the calm must be taken before its waiter would ask again.
func TestMutexInTheCalm(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, test := range map[string]struct {
		taken  int64 // how long after the release
		silent int64 // for how long of that the store did not answer
		limit  time.Duration
		want   int
	}{
		"in time":                     {200, 0, calmLimit, 0},
		"late":                        {700, 0, calmLimit, 1},
		"late, but the store hung":    {700, 500, calmLimit, 0},
		"late after it answered late": {700, 100, calmLimit, 1},
		"late only by that answer":    {390, 100, calmLimit, 0},
		"not late in a database":      {700, 0, calmStoreLimit, 0},
		"late in a quorum":            {700, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			event := func(at int64, what string, process int) judge.Event {
				return judge.Event{At: at * ms, What: what, Op: 1, Name: "burst:a", Side: judge.Exclusive, Lease: 500 * ms, Token: uint64(process), Process: process}
			}
			taken := 1000 + test.taken
			r := round{fencing: true, calmLimit: test.limit, history: judge.New([]judge.Event{
				event(100, judge.Called, 1), event(110, judge.Granted, 1), event(990, judge.Unlock, 1), event(1000, judge.Unlocked, 1),
				event(200, judge.Called, 2), event(taken, judge.Granted, 2), event(taken+10, judge.Unlock, 2), event(taken+11, judge.Unlocked, 2),
				{At: (taken - 10) * ms, What: judge.Silent, Op: -1, Process: 2, Left: test.silent * ms},
			})}
			var v verdict
			r.judgeWaits(&v)
			if len(v.violations) != test.want {
				t.Errorf("got %d violations, want %d: %v", len(v.violations), test.want, v.violations)
			}
		})
	}
}

// An answer that is missing beside a fault, or shortly after it, is counted apart.
func TestUnknownBesideFaults(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, test := range map[string]struct {
		from, to int64
		process  int
		beside   bool
	}{
		"a server is broken":         {90, 110, -1, true},
		"the process is cut off":     {90, 110, 1, true},
		"a connection is made again": {10, 20, -1, true},
		"another process is cut off": {90, 110, 2, false},
		"the fault came later":       {210, 300, -1, false},
		"the fault was long before":  {-5000, -4000, -1, false},
	} {
		r := &round{fencing: true, history: judge.New([]judge.Event{
			{At: 100 * ms, What: judge.Called, Process: 1, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms},
			{At: 200 * ms, What: judge.Failed, Process: 1, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms, Err: "no answer"},
		}), windows: []window{{from: test.from * ms, to: test.to * ms, process: test.process}}}
		j := r.judge().judged
		if none := j.Operations == 0; none || test.beside != (j.Unknown == 0) || test.beside != (j.Outage > 0) {
			t.Errorf("%s: got %d of %d unknown, and %d beside a fault", name, j.Unknown, j.Operations, j.Outage)
		}
	}
}

// Where a store keeps a free name for a waiter, busy needs no holder; else it does.
func TestBusyWhileAnotherIsAwaited(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, process int, failure string) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms, Token: uint64(at), Process: process, Try: process == 3, Err: failure}
	}
	again := func(at int64, what, failure string) judge.Event {
		e := event(at, what, 3, failure)
		e.Op = 2
		return e
	}
	for name, test := range map[string]struct {
		places bool
		passes bool
		waits  int64 // from when on somebody waits
		doubt  int64 // when a process reported a call without an answer
		want   int   // violations
	}{
		"kept for one who waits":     {true, false, 150, 0, 0},
		"nobody waits":               {true, false, 380, 0, 1},
		"nothing is kept":            {false, false, 150, 0, 1},
		"another is refused":         {true, true, 380, 0, 0},
		"a late call took it":        {true, false, 380, 200, 0},
		"its own call had no answer": {true, false, 380, 306, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{fencing: true, places: test.places, passes: test.passes, undoes: true, history: judge.New([]judge.Event{
				{At: test.doubt * ms, What: judge.Unanswered, Op: -1, Name: "mutex:a", Process: 3},
				event(100, judge.Called, 1, ""), event(110, judge.Granted, 1, ""), event(190, judge.Unlock, 1, ""), event(200, judge.Unlocked, 1, ""),
				event(test.waits, judge.Called, 2, ""), event(400, judge.Granted, 2, ""), event(410, judge.Unlock, 2, ""), event(411, judge.Unlocked, 2, ""),
				event(320, judge.Called, 4, ""), event(330, judge.Granted, 4, ""), event(340, judge.Unlock, 4, ""), event(350, judge.Unlocked, 4, ""),
				event(300, judge.Called, 3, ""), event(310, judge.Failed, 3, "busy"),
				again(195, judge.Called, ""), again(305, judge.Failed, "busy"), // it met the first
			})}
			if v := r.judge(); len(v.judged.Violations) != test.want {
				t.Errorf("got violations %v, want %d", v.judged.Violations, test.want)
			}
		})
	}
}

// A call that had no answer may take the lock after a lease that ended by itself. After a
// release the store refuses it.
func TestLateCallAfterALease(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, test := range map[string]struct {
		fixed      bool
		unanswered int64
		queues     bool
		want       int // violations
	}{
		"a lease that ended by itself": {true, 110, false, 0},
		"a release":                    {false, 110, false, 1},
		"each call was answered":       {true, 90, false, 1},
		"the lease ends by a release":  {true, 110, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			event := func(at int64, what string, process int) judge.Event {
				return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 150 * ms, Left: 150 * ms, Token: uint64(process), Process: process, Fixed: test.fixed && process == 1}
			}
			ended := []judge.Event{event(270, judge.Lost, 1)}
			if !test.fixed {
				ended = []judge.Event{event(200, judge.Unlock, 1), event(210, judge.Unlocked, 1)}
			}
			refused := event(410, judge.Failed, 2)
			refused.Err = "busy"
			r := round{fencing: true, queues: test.queues, history: judge.New(append(ended,
				judge.Event{At: test.unanswered * ms, What: judge.Unanswered, Op: -1, Name: "mutex:a", Process: 1},
				event(100, judge.Called, 1), event(120, judge.Granted, 1),
				event(290, judge.Called, 3), event(300, judge.Granted, 3), event(310, judge.Unlock, 3), event(320, judge.Unlocked, 3),
				event(400, judge.Called, 2), refused,
			))}
			if v := r.judge(); len(v.judged.Violations) != test.want {
				t.Errorf("got violations %v, want %d", v.judged.Violations, test.want)
			}
		})
	}
}

// A TryLock says busy after a call that had no answer. The store may execute that call later, and
// refuse others until the release of the TryLock arrives.
func TestLateCallAfterARefusal(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, test := range map[string]struct {
		unanswered int64
		want       int // violations
	}{
		"the first call had no answer": {130, 0},
		"another call had none":        {160, 1},
		"each call was answered":       {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			event := func(at int64, what string, process int, failure string) judge.Event {
				return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms, Left: 500 * ms, Token: uint64(process), Process: process, Err: failure}
			}
			r := round{fencing: true, history: judge.New([]judge.Event{
				{At: test.unanswered * ms, What: judge.Unanswered, Op: -1, Name: "mutex:a", Process: 2},
				event(100, judge.Called, 1, ""), event(110, judge.Granted, 1, ""), event(200, judge.Unlock, 1, ""), event(210, judge.Unlocked, 1, ""),
				event(120, judge.Called, 2, ""), event(150, judge.Failed, 2, "busy"),
				event(240, judge.Called, 3, ""), event(250, judge.Failed, 3, "busy"),
			})}
			if v := r.judge(); len(v.judged.Violations) != test.want {
				t.Errorf("got violations %v, want %d", v.judged.Violations, test.want)
			}
		})
	}
}

// Where a lease ends by a release, the next grant may come sooner than the store would
// have ended it; where the store counts it, that is a violation.
func TestLeaseThatEndsByARelease(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, process int) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 150 * ms, Left: 90 * ms, Token: uint64(process), Process: process, Fixed: process == 2}
	}
	for queues, want := range map[bool]int{true: 0, false: 1} {
		r := round{fencing: true, queues: queues, history: judge.New([]judge.Event{
			event(100, judge.Called, 1), event(110, judge.Granted, 1), event(170, judge.Unlock, 1), event(180, judge.Unlocked, 1),
			event(120, judge.Called, 2), event(190, judge.Granted, 2), event(280, judge.Lost, 2), // asked at 120, granted at 170 or later
			event(200, judge.Called, 3), event(290, judge.Granted, 3), event(295, judge.Unlock, 3), event(296, judge.Unlocked, 3),
		})}
		if v := r.judge(); len(v.judged.Violations) != want {
			t.Errorf("queues %v: got violations %v, want %d", queues, v.judged.Violations, want)
		}
	}
}

// A lock in a session ends with it, which may have been renewed for the last time before
// the grant: the next grant may come sooner than one lease after it.
func TestLeaseThatBeganBeforeTheGrant(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, process int) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: 1, Name: "mutex:a", Side: judge.Exclusive, Lease: 150 * ms, Left: 90 * ms, Token: uint64(process), Process: process}
	}
	for _, test := range []struct {
		queues bool
		next   int64 // when the next one is granted
		want   int   // violations
	}{{true, 210, 0}, {true, 180, 1}, {false, 210, 1}, {false, 270, 0}} {
		r := round{fencing: true, queues: test.queues, history: judge.New([]judge.Event{
			event(100, judge.Called, 1), event(110, judge.Granted, 1), // and killed
			event(120, judge.Called, 2), event(test.next, judge.Granted, 2), event(295, judge.Unlock, 2), event(296, judge.Unlocked, 2),
		})}
		if v := r.judge(); len(v.judged.Violations) != test.want {
			t.Errorf("%+v: got violations %v, want %d", test, v.judged.Violations, test.want)
		}
	}
}

// Two holders are explained by a fault that loses writes, and only around it.
func TestWhatExplainsTwoHolders(t *testing.T) {
	const ms, lease = int64(time.Millisecond), int64(time.Second)
	first := judge.Operation{Name: "mutex:a", Lease: lease}
	found := func(called, from, to int64) *judge.Violation {
		o := first
		o.Called = called * ms
		o.Token = 1
		next := judge.Operation{Name: o.Name, Called: from * ms, Granted: from * ms, Token: 2}
		return &judge.Violation{Kind: judge.Overlap, Name: o.Name, A: &o, B: &next, At: from * ms, To: to * ms}
	}
	swapped := found(1000, 1600, 1700) // the answer to the first came after that to the second
	swapped.A, swapped.B = swapped.B, swapped.A
	windows := func(from, to int64, loses bool) []window {
		return []window{{from: from * ms, to: to*ms + 4*lease, lost: to * ms, process: -1, loses: loses}}
	}
	elsewhere := windows(1500, 2000, true)
	elsewhere[0].name = "mutex:b"
	otherSlot := windows(1500, 2000, true)
	takenOver := windows(1500, 2000, true)
	takenOver[0].switched = 3000 * ms
	otherSlot[0].slots = func(slot int) bool { return slot != redistest.Slot("mutex:a") }
	for name, test := range map[string]struct {
		windows []window
		found   *judge.Violation
		want    bool
	}{
		"during the fault":                  {windows(1500, 2000, true), found(1000, 1600, 1700), true},
		"told in another order":             {windows(1500, 1550, true), swapped, true},
		"soon after it":                     {windows(1500, 2000, true), found(1000, 2500, 2900), true},
		"asked during the fault":            {windows(1500, 2000, true), found(1700, 2500, 2900), true},
		"nothing was broken":                {nil, found(1000, 1600, 1700), false},
		"a fault that loses nothing":        {windows(1500, 2000, false), found(1000, 1600, 1700), false},
		"before the fault":                  {windows(1500, 2000, true), found(1000, 1400, 1600), false},
		"for longer than a lease after it":  {windows(1500, 2000, true), found(1000, 1600, 3300), false},
		"the first asked after it":          {windows(1500, 2000, true), found(2100, 2200, 2300), false},
		"until another took over":           {takenOver, found(1000, 3300, 3900), true},
		"long after another took over":      {takenOver, found(1000, 3300, 4100), false},
		"asked until another took over":     {takenOver, found(2100, 3300, 3900), false},
		"a lock of another name was lost":   {elsewhere, found(1000, 1600, 1700), false},
		"slots of another server were lost": {otherSlot, found(1000, 1600, 1700), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{windows: test.windows}
			if got := r.explains(test.found); got != test.want {
				t.Errorf("explained: got %v, want %v", got, test.want)
			}
		})
	}
}

// A holder that a failover forgot passes its lock on to somebody who asked after the next grant.
func TestWhatExplainsASmallerToken(t *testing.T) {
	const ms, lease = int64(time.Millisecond), int64(time.Second)
	next := judge.Operation{Name: "mutex:a", Process: 1, Called: 1600 * ms, Granted: 1700 * ms, Token: 9, Lease: lease}
	told := func(token uint64, process int, called, granted, unlock int64) judge.Operation {
		return judge.Operation{
			Name: "mutex:a", Process: process, Token: token, Lease: lease,
			Called: called * ms, Granted: granted * ms, Unlock: unlock * ms,
		}
	}
	for name, test := range map[string]struct {
		chain []judge.Operation // the last has the smaller token
		want  bool
	}{
		"passed on":             {[]judge.Operation{told(5, 0, 1400, 1450, 1800), told(6, 0, 1750, 1801, 1900)}, true},
		"passed on twice":       {[]judge.Operation{told(5, 0, 1400, 1450, 1800), told(6, 0, 1750, 1801, 1900), told(7, 0, 1850, 1901, 2000)}, true},
		"by the store":          {[]judge.Operation{told(6, 0, 1750, 1801, 1900)}, false},
		"from another process":  {[]judge.Operation{told(5, 2, 1400, 1450, 1800), told(6, 0, 1750, 1801, 1900)}, false},
		"asked after the fault": {[]judge.Operation{told(5, 0, 2100, 2150, 2200), told(6, 0, 2190, 2201, 2300)}, false},
		"before its Unlock":     {[]judge.Operation{told(5, 0, 1400, 1450, 1850), told(6, 0, 1750, 1801, 1900)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{windows: []window{{from: 1500 * ms, lost: 2000 * ms, process: -1, loses: true}}, history: &judge.History{Operations: test.chain}}
			found := &judge.Violation{Kind: judge.Token, Name: next.Name, A: &next, B: &test.chain[len(test.chain)-1]}
			if got := r.explainsToken(found); got != test.want {
				t.Errorf("explained: got %v, want %v", got, test.want)
			}
		})
	}
}

// A write that undid another is explained by a fault that gave the lock to two,
// however long the second one held it then.
func TestWhatExplainsALostUpdate(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, op int64) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: op, Process: int(op), Name: "mutex:a", Side: judge.Exclusive, Lease: 500 * ms, Left: 480 * ms, Token: uint64(op), Watched: true}
	}
	for name, test := range map[string]struct {
		windows         []window
		stale, violated int
	}{
		"a fault took the first one's lock": {[]window{{from: 105 * ms, to: 110 * ms, lost: 110 * ms, process: -1, loses: true}}, 1, 0},
		"a fault long before":               {[]window{{from: 5 * ms, to: 10 * ms, lost: 10 * ms, process: -1, loses: true}}, 0, 1},
		"nothing was broken":                {nil, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{windows: test.windows, history: judge.New([]judge.Event{
				event(95, judge.Called, 1), event(100, judge.Granted, 1), event(102, judge.Called, 2), event(112, judge.Granted, 2),
				event(113, judge.Read, 2), event(114, judge.Read, 1), event(115, judge.Wrote, 1), event(116, judge.Unlock, 1), event(120, judge.Unlocked, 1),
				event(400, judge.Renewed, 2), event(800, judge.Renewed, 2), event(1000, judge.Wrote, 2), event(1001, judge.Unlock, 2), event(1002, judge.Unlocked, 2),
			})}
			var v verdict
			r.judgeUpdates(&v)
			if v.stale != test.stale || len(v.violations) != test.violated {
				t.Errorf("%d stale writes, %d violations, want %d and %d", v.stale, len(v.violations), test.stale, test.violated)
			}
		})
	}
}

// A holder whose lock a fault took away may be notified after the next grant, also if
// its process had no processor when its own clock said so.
func TestWhatExplainsALateNotice(t *testing.T) {
	const ms = int64(time.Millisecond)
	event := func(at int64, what string, op, left int64) judge.Event {
		return judge.Event{At: at * ms, What: what, Op: op, Process: int(op), Name: "mutex:a", Side: judge.Exclusive, Lease: 150 * ms, Left: left * ms, Watched: true}
	}
	flushed := window{from: 110 * ms, to: 115 * ms, lost: 115 * ms, process: -1, loses: true}
	earlier := window{from: 10 * ms, to: 20 * ms, lost: 20 * ms, process: -1, loses: true}
	for name, test := range map[string]struct {
		windows []window
		left    int64 // of the lease when it was granted
		idle    int64 // for how long, until 350 ms
		late    int   // counted
		want    int   // violations
	}{
		"a fault took the lock":      {[]window{flushed}, 130, 170, 0, 0},
		"nothing was broken":         {nil, 130, 170, 1, 1},
		"a fault before it was held": {[]window{earlier}, 130, 170, 1, 1},
		"late":                       {nil, 15, 170, 1, 1},
		"told not at once when the process went on": {nil, 15, 220, 1, 0},
		"told at once when the process went on":     {nil, 15, 240, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{windows: test.windows, history: judge.New([]judge.Event{
				event(95, judge.Called, 1, 0), event(100, judge.Granted, 1, test.left),
				event(101, judge.Called, 2, 0), event(120, judge.Granted, 2, 130), event(121, judge.Unlock, 2, 0), event(122, judge.Unlocked, 2, 0),
				{At: 350 * ms, What: judge.Stalled, Op: -1, Process: 1, Left: test.idle * ms},
				event(352, judge.Lost, 1, 0),
			})}
			var v verdict
			r.judgeLosses(&v)
			if len(v.losses) != 1 || v.late != test.late || len(v.violations) != test.want {
				t.Errorf("%d losses, %d late, %d violations, want 1, %d and %d: %v", len(v.losses), v.late, len(v.violations), test.late, test.want, v.notices)
			}
		})
	}
}

// Of permits it is not known whose was given away: a fault that took one explains
// the next grant beside those who lost nothing, but only a fault that took one
// from somebody who held it then.
func TestWhatExplainsPermits(t *testing.T) {
	const ms, lease = int64(time.Millisecond), int64(time.Second)
	holder := func(called, told int64) judge.Operation {
		return judge.Operation{
			Name: "semaphore:a", Side: judge.Permit, Called: called * ms, Granted: called*ms + 1, Token: uint64(called),
			Lease: lease, Due: judge.Never, Lost: told * ms, Notified: told * ms, Unlock: judge.Never, Killed: judge.Never,
		}
	}
	next, beside := holder(2200, 9000), holder(2150, 9000)
	late := holder(1000, 2500)
	late.Granted = 2300 * ms
	for name, test := range map[string]struct {
		other judge.Operation
		want  bool
	}{
		"somebody's permit was taken":              {holder(1000, 2500), true},
		"who had given up by then":                 {holder(1000, 2100), false},
		"whose permit came after the loss":         {holder(2100, 2500), false},
		"who was granted one after the next grant": {late, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := round{
				windows: []window{{from: 1500 * ms, to: 2000 * ms, lost: 2000 * ms, process: -1, loses: true}},
				history: &judge.History{Operations: []judge.Operation{test.other, beside, next}},
			}
			ops := r.history.Operations
			if got := r.explainsPermit(&ops[2]); got != test.want {
				t.Errorf("explained: got %v, want %v", got, test.want)
			}
			found := &judge.Violation{Kind: judge.Overlap, Name: next.Name, A: &ops[2], B: &ops[1]} // of those who are too many any two are named
			if got := r.explainsPermits(found); got != test.want {
				t.Errorf("explained, of two others: got %v, want %v", got, test.want)
			}
		})
	}
}
