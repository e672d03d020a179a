package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// processes is how many processes use the locks.
const processes = 4

// restLimit is how long it may take after all faults until every waiter
// has been served: the leases of the dead and the wake-up, and, after a worker was
// killed or stopped, its place in the queue of a fair lock.
func restLimit(windows []window) time.Duration {
	limit := longestTTL + 3*time.Second
	if slices.ContainsFunc(windows, func(w window) bool { return w.process >= 0 && (w.what == "killed" || w.what == "stopped") }) {
		limit += fairPlace
	}
	return limit
}

// calm is for how long of a round all work and nothing is broken. Each round that is made because
// too little has happened adds moreCalm: a fault can be felt for half of the calm, and while the
// store of a busy machine hangs, no wait is measured.
const (
	calm     = 8 * time.Second
	moreCalm = 5 * time.Second
)

// soak is one deployment under faults.
type soak struct {
	deployment string
	seed       uint64
	duration   time.Duration // of the work; judging comes on top
	round      time.Duration
	enough     func(*totals) bool // false makes further rounds, for at most four times as long again; nil is true
	first      int                // round
	out        string             // folder for what explains violations
	only       string             // the only workload
	peace      bool               // there are no faults
	mutant     string             // what is wrong with the workers, to try the judge
	log        io.Writer
	quiet      bool

	arena   *arena
	workers *workers
	nemesis *nemesis
	totals  *totals
	longer  time.Duration   // how much longer than usual the calm of a round is
	former  []window        // of the round before
	growth  map[int]*growth // by process
}

// run runs the soak and returns what it brought, as far as it came.
func (s *soak) run(ctx context.Context) (*totals, error) {
	var err error
	s.totals, s.growth = newTotals(s.deployment, s.seed), map[int]*growth{}
	if s.arena, err = openArena(s.deployment); err != nil {
		return nil, err
	}
	defer func() { _ = s.arena.close() }()
	if s.deployment == quorumOfFive {
		s.only = mutexes
	}
	if s.workers, err = startWorkers(s.arena, s.seed, processes, s.only, s.mutant); err != nil {
		return nil, err
	}
	begin := time.Now()
	s.nemesis = &nemesis{arena: s.arena, workers: s.workers, begin: begin, counts: s.totals.Faults}
	if !s.quiet {
		s.nemesis.log = s.log
	}
	_, _ = fmt.Fprintf(s.log, "soak of %s, seed %d\n", s.deployment, s.seed)
	n := max(s.first, 1)
	// Judging does not count: a name that takes the model half a minute must not cost
	// the rounds after it.
	for left := s.duration; ctx.Err() == nil && (left > 0 || s.goesOn(left)); n++ {
		length := s.round
		if left > 0 {
			length = min(length, left)
		} else {
			s.longer += moreCalm
		}
		err = s.once(ctx, n, length)
		s.totals.FailOvers, s.totals.ServerFaults = s.nemesis.overs, s.nemesis.servers
		if err != nil {
			break
		}
		left -= s.round
	}
	if err == nil {
		s.totals.Other = append(s.totals.Other, s.lastResidue(n)...)
	}
	s.totals.Leaks = append(s.totals.Leaks, s.workers.close()...)
	s.totals.Duration = time.Since(begin)
	s.totals.finish()
	return s.totals, err
}

// goesOn reports whether another round is to be made, though the time is over: on a busy
// machine little happens in it, and not every seed and machine sees each kind of fault in it.
func (s *soak) goesOn(left time.Duration) bool {
	return s.enough != nil && left > -4*s.duration && !s.enough(s.totals)
}

// once is one round: work under faults, work without, rest, judgement.
func (s *soak) once(ctx context.Context, n int, length time.Duration) error {
	begin := time.Now()
	s.workers.work(order{Round: n, Seed: s.seed + uint64(n)<<32})
	faults, cancel := context.WithTimeout(ctx, max(length-calm, length/2))
	if !s.peace {
		s.nemesis.run(faults, s.seed+uint64(n)<<32)
	}
	cancel()
	pause(ctx, min(calm, length/2)+s.longer)
	windows, trouble := s.nemesis.take()
	limit := restLimit(windows)
	took, late := s.workers.rest(limit)
	s.totals.LongestRest = max(s.totals.LongestRest, took)
	events, wrong := s.workers.take()
	r := &round{history: judge.New(events), windows: windows, fencing: s.arena.fencing(), calmLimit: s.arena.calmLimit()}
	if store := s.arena.store; store != nil {
		r.places, r.queues, r.undoes, r.passes = true, store.Queues, store.Database, store.TryQueues
	}
	v := r.judge()
	s.totals.add(r, v)
	if len(late) > 0 {
		wrong = append(wrong, fmt.Sprintf("processes %v did not stop within %v: a waiter was not served", late, limit))
	}
	wrong = append(wrong, s.residue(n, windows)...)
	wrong = append(wrong, s.listeners()...)
	s.former = windows
	wrong = append(wrong, s.figures()...)
	s.totals.Other = append(s.totals.Other, wrong...)
	_, _ = fmt.Fprintf(s.log, "%v round %d: %d operations, %d holds, %d violations, %d explained, rest after %v, %v in all\n",
		time.Now().Format("15:04:05"), n, len(r.history.Operations), v.swept.Holds, len(v.violations)+len(wrong), v.explained,
		took.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
	for _, f := range v.violations[:min(len(v.violations), 3)] {
		_, _ = fmt.Fprintf(s.log, "VIOLATION %s: %v\n", f.Kind, f)
	}
	for _, w := range wrong {
		_, _ = fmt.Fprintf(s.log, "VIOLATION: %s\n", w)
	}
	if len(v.violations)+len(wrong)+v.late+v.judged.Undecided > 0 && len(s.totals.Folders) < 10 {
		if err := s.save(n, r, v, wrong); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(s.log, "replay with: go run ./internal/e2e/soak -deployment %s -seed %d -round %v -from %d\n", s.deployment, s.seed, s.round, n)
	}
	if len(late) > 0 {
		s.workers.stacks(late, s.log)
		return errors.New("given up: the workers would not begin another round")
	}
	return errors.Join(trouble...)
}

// growth is what a process used at rest in its first rounds, at most.
type growth struct {
	rounds int
	first  [3]int64
}

// grown compares what a process uses with its first rounds.
func (s *soak) grown(id int, now [3]int64) (wrong []string) {
	const settled = 3
	g := s.growth[id]
	if g == nil {
		g = &growth{}
		s.growth[id] = g
	}
	g.rounds++
	// go-redis keeps pools of 20 and of 10, once many calls hung: for each member of a quorum.
	pools := 40 * int64(max(1, len(s.arena.parts)))
	for i, f := range []struct {
		name  string
		grace int64
	}{{"goroutines", 20}, {"bytes of heap", 32 << 20}, {"sockets", pools}} {
		if g.rounds <= settled {
			g.first[i] = max(g.first[i], now[i])
		} else if now[i] > g.first[i]+f.grace {
			wrong = append(wrong, fmt.Sprintf("process %d at rest has %d %s, and had at most %d in its first %d rounds", id, now[i], f.name, g.first[i], settled))
		}
	}
	return wrong
}

// figures adds up what the workers use at rest, and looks whether it has grown
// since the first rounds, for each and for all together.
func (s *soak) figures() (wrong []string) {
	var now [3]int64
	for _, m := range s.workers.members() {
		m.mu.Lock()
		var own [3]int64
		for i, f := range []string{"goroutines", "heap", "sockets"} {
			own[i] = m.figures.Figures[f]
			now[i] += own[i]
		}
		wrong = append(wrong, s.grown(m.ID(), own)...)
		if n := m.figures.Figures["held"]; n > 0 {
			wrong = append(wrong, fmt.Sprintf("process %d holds %d locks at rest", m.ID(), n))
		}
		m.mu.Unlock()
	}
	for i, f := range []struct {
		pair  *[2]int64
		name  string
		grace int64
	}{
		{&s.totals.Goroutines, "goroutines", 100},
		{&s.totals.Heap, "bytes of heap", 64 << 20},
		{&s.totals.Sockets, "sockets", 200},
	} {
		if s.totals.Rounds == 1 {
			f.pair[0] = now[i]
		}
		f.pair[1] = now[i]
		if f.pair[1] > 2*f.pair[0]+f.grace {
			wrong = append(wrong, fmt.Sprintf("the workers at rest have %d %s, and had %d after the first round", f.pair[1], f.name, f.pair[0]))
		}
	}
	return wrong
}

// save writes what explains a round's violations to a folder.
func (s *soak) save(n int, r *round, v verdict, wrong []string) error {
	base := s.out
	if base == "" {
		var err error
		if base, err = os.MkdirTemp("", "holdfast-soak-violation-*"); err != nil {
			return err
		}
	}
	dir := filepath.Join(base, fmt.Sprintf("%s-%d-round-%d", s.deployment, s.seed, n))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var text, events, faults, withheld, stacks strings.Builder
	for _, f := range v.violations {
		fmt.Fprintf(&text, "%s: %v\n\n", f.Kind, f)
	}
	for _, w := range slices.Concat(wrong, v.judged.Listings, v.notices) {
		fmt.Fprintln(&text, w)
	}
	lines := json.NewEncoder(&events)
	for _, e := range r.history.Events {
		_ = lines.Encode(e)
	}
	for _, w := range r.windows {
		fmt.Fprintf(&faults, "%s to %s process %d %s, loses writes: %v until %s, switched %s %s\n",
			stamp(w.from), stamp(w.to), w.process, w.what, w.loses, stamp(w.lost), stamp(w.switched), w.name)
	}
	for _, m := range s.workers.members() {
		m.mu.Lock()
		if m.figures.Err != "" {
			fmt.Fprintf(&stacks, "process %d at rest\n%s\n", m.ID(), m.figures.Err)
		}
		m.mu.Unlock()
		for _, p := range m.mesh.proxies() {
			for _, h := range p.Withheld() {
				fmt.Fprintf(&withheld, "process %d %s %+v\n", m.ID(), p.Addr(), h)
			}
		}
	}
	files := map[string]string{"violations.txt": text.String(), "history.json": events.String(), "faults.txt": faults.String(), "withheld.txt": withheld.String(), "stacks.txt": stacks.String()}
	for i, srv := range s.arena.servers() {
		files[fmt.Sprintf("server-%d.log", i)] = srv.Log()
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	s.totals.Folders = append(s.totals.Folders, dir)
	return nil
}

func stamp(at int64) string { return time.Unix(0, at).Format("05.000000") }
