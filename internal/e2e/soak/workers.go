package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

// member is a worker process and the proxies between it and the servers.
type member struct {
	*judge.Process
	slot  int // which of the places it has
	again int // how many had the place before, in the round in which it was started
	mesh  mesh
	fault sync.Mutex // held by its caller

	mu      sync.Mutex
	figures judge.Event // its last report
	ready   bool
	resting bool
	ended   *judge.Event
	broken  []string
}

// workers is the worker processes. Its methods may be called from several
// goroutines at once.
type workers struct {
	arena  *arena
	only   string
	mutant string
	seed   uint64

	mu      sync.Mutex
	started int
	again   map[int]int // how many were started in this round, by place
	places  []*member   // the living
	former  []*member   // of this round
	holding map[operation]holder
	unlocks map[int]chan struct{} // by process: closed when it begins to release a lock
	order   order                 // the last one
}

type operation struct {
	process int
	op      int64
}

// holder is a lock that is held now, as far as is known.
type holder struct {
	operation
	name string
	held bool
}

// startWorkers starts workers for n places, each adapter in its turn, and returns when
// they are connected.
func startWorkers(a *arena, seed uint64, n int, only, mutant string) (*workers, error) {
	w := &workers{
		arena: a, seed: seed, only: only, mutant: mutant,
		places: make([]*member, n), holding: map[operation]holder{}, again: map[int]int{}, unlocks: map[int]chan struct{}{},
	}
	for i := range n {
		if err := w.start(i); err != nil {
			w.close()
			return nil, err
		}
	}
	if err := w.await(20 * time.Second); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// await waits until all workers are connected.
func (w *workers) await(limit time.Duration) error {
	for _, m := range w.members() {
		for end := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
			m.mu.Lock()
			is := m.ready
			m.mu.Unlock()
			if is {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("worker %d is not connected after %v: %w", m.ID(), limit, m.Err())
			}
		}
	}
	return nil
}

// longestTTL is that of all workers. A waiter that misses its message waits long enough
// to be seen.
const longestTTL = 10 * time.Second

// immortal is the place of the worker that is never killed: what it leaks adds up.
const immortal = 3

// start starts a worker in a place, and lets it do what the others do.
func (w *workers) start(place int) error {
	m := &member{slot: place}
	var err error
	if m.mesh, err = w.arena.meshes(); err != nil {
		return err
	}
	w.mu.Lock()
	id := w.started
	w.started++
	if w.order.Round > 0 {
		w.again[place]++
		m.again = w.again[place]
	}
	w.mu.Unlock()
	ttls := w.arena.ttls()
	ttl := ttls[place%len(ttls)]
	if w.mutant != "" && w.arena.store == nil {
		ttl = min(ttl, time.Second) // a long lease hides who was in the way
	}
	p := plan{
		TTL: ttl, Only: w.only, Mutant: w.mutant, Long: 25,
		Targets: w.arena.targets(dial.Adapters()[place%2], m.mesh),
	}
	if w.arena.store != nil {
		p.Store, p.Addr = w.arena.name, m.mesh.proxies()[0].Addr()
	}
	if w.mutant == lazy {
		p.Long = 4
	}
	if (uint64(place/2)+w.seed)%2 == 0 { // half of the places have the smallest margin that is any use
		p.Margin = max(10*time.Millisecond, ttl/100)
	}
	if m.Process, err = worker.Start(id, jobSoak, p, func(e judge.Event) { w.hear(m, e) }); err != nil {
		m.mesh.close()
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places[place] = m
	if w.order.Round > 0 && !w.order.Rest {
		_ = m.Send(w.order.forMember(m))
	}
	return nil
}

// forMember returns the order with a seed of the member's own: it depends on the
// round and the place, and not on what was before.
func (o order) forMember(m *member) order {
	o.Seed = randFor(o.Seed, 1000*(m.slot+1)+m.again).Uint64()
	return o
}

// hear follows the holders of names.
func (w *workers) hear(m *member, e judge.Event) {
	switch e.What {
	case ready, rested, ended, broken:
		m.mu.Lock()
		defer m.mu.Unlock()
		switch e.What {
		case ready:
			m.ready = true
		case rested:
			m.resting, m.figures = true, e
		case ended:
			m.ended = &e
		default:
			m.broken = append(m.broken, e.Err)
		}
		return
	}
	key := operation{e.Process, e.Op}
	w.mu.Lock()
	defer w.mu.Unlock()
	if begun := w.unlocks[e.Process]; begun != nil && e.What == judge.Unlock {
		close(begun)
		delete(w.unlocks, e.Process)
	}
	switch e.What {
	case judge.Called:
		w.holding[key] = holder{operation: key, name: e.Name}
	case judge.Granted:
		h := w.holding[key]
		h.held = true
		w.holding[key] = h
	case judge.Failed, judge.Unlock, judge.Lost:
		delete(w.holding, key)
	case judge.Killed:
		for k := range w.holding {
			if k.process == e.Process {
				delete(w.holding, k)
			}
		}
	}
}

// awaitUnlock waits until a process begins to release a lock, for `shortly` at most.
func (w *workers) awaitUnlock(ctx context.Context, process int) {
	w.mu.Lock()
	begun := w.unlocks[process]
	if begun == nil {
		begun = make(chan struct{})
		w.unlocks[process] = begun
	}
	w.mu.Unlock()
	select {
	case <-begun:
	case <-time.After(shortly):
	case <-ctx.Done():
	}
}

// holder returns a process that holds a lock now, or false.
func (w *workers) holder(r *rand.Rand) (holder, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []holder
	for _, h := range w.holding {
		if h.held {
			all = append(all, h)
		}
	}
	n := r.Uint64() // drawn in any case, so that the schedule does not depend on it
	if len(all) == 0 {
		return holder{}, false
	}
	slices.SortFunc(all, func(a, b holder) int { return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.op, b.op)) })
	return all[n%uint64(len(all))], true
}

// at returns the member in a place.
func (w *workers) at(place int) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[place%len(w.places)]
}

// withID returns the living member with that number, or nil.
func (w *workers) withID(id int) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.places {
		if m.ID() == id {
			return m
		}
	}
	return nil
}

func (w *workers) members() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.places)
}

// replace kills the member in a place and starts another.
func (w *workers) replace(m *member) error {
	m.Kill()
	m.mesh.close()
	w.mu.Lock()
	w.former = append(w.former, m)
	w.mu.Unlock()
	return w.start(m.slot)
}

// work lets all work under the names of a round.
func (w *workers) work(o order) {
	w.mu.Lock()
	w.order = o
	if !o.Rest {
		w.again = map[int]int{}
		for _, m := range w.places {
			m.again = 0
		}
	}
	places := slices.Clone(w.places)
	w.mu.Unlock()
	for _, m := range places {
		m.mu.Lock()
		m.resting = false
		m.mu.Unlock()
		_ = m.Send(o.forMember(m))
	}
}

// rest lets all finish what they have begun, for limit at most. It returns how
// long that took, and who has not finished.
func (w *workers) rest(limit time.Duration) (took time.Duration, late []int) {
	begin := time.Now()
	w.work(order{Rest: true})
	for {
		late = nil
		for _, m := range w.members() {
			m.mu.Lock()
			if !m.resting {
				late = append(late, m.ID())
			}
			m.mu.Unlock()
		}
		if took = time.Since(begin); len(late) == 0 || took > limit {
			return took, late
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stacks writes down where the goroutines of some workers are, which end with that.
func (w *workers) stacks(of []int, to io.Writer) {
	for _, m := range w.members() {
		if slices.Contains(of, m.ID()) {
			_, _ = fmt.Fprintf(to, "worker %d:\n%s\n", m.ID(), m.Stacks())
		}
	}
}

// take returns what all have reported since the last time, and what is wrong
// with the processes themselves.
func (w *workers) take() (events []judge.Event, wrong []string) {
	w.mu.Lock()
	all := append(slices.Clone(w.places), w.former...)
	w.former = nil
	w.mu.Unlock()
	for _, m := range all {
		events = append(events, m.Take()...)
		if err := m.Err(); err != nil {
			wrong = append(wrong, err.Error())
		}
		m.mu.Lock()
		for _, b := range m.broken {
			wrong = append(wrong, fmt.Sprintf("process %d: %s", m.ID(), b))
		}
		m.broken = nil
		m.mu.Unlock()
	}
	return events, wrong
}

// close ends all processes. It returns what they left behind.
func (w *workers) close() (leaks []string) {
	over := time.After(20 * time.Second)
	for _, m := range w.members() {
		if m == nil {
			continue
		}
		m.Stop()
	}
	for _, m := range w.members() {
		if m == nil {
			continue
		}
		select {
		case <-m.Done():
		case <-over:
			leaks = append(leaks, fmt.Sprintf("process %d does not end", m.ID()))
			m.Kill()
		}
		m.mesh.close()
		m.mu.Lock()
		switch {
		case m.ended == nil:
			leaks = append(leaks, fmt.Sprintf("process %d ended without a word: %v", m.ID(), m.Err()))
		case m.ended.Err != "" || m.ended.Figures["sockets"] > 0:
			leaks = append(leaks, fmt.Sprintf("process %d left %d sockets and %s", m.ID(), m.ended.Figures["sockets"], m.ended.Err))
		}
		m.mu.Unlock()
	}
	return leaks
}
