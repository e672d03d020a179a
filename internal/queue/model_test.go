package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// What follows compares Queues with a model that is too simple to be wrong: a list of
// waiters, a set of heads, a value. Each step is one call of one goroutine. Calls are
// atomic, so sequences of steps are all that goroutines can do to each other. What Pass
// does before the receiver goes on is a step of its own.

// stage is the state of a goroutine of the model.
type stage int

const (
	out     stage = iota
	waiting       // among the waiters
	called        // it is a head, and does not know it
	asking        // it is a head, and knows it
	coming        // a value was passed to it, and Pass has not returned
	given         // a value was passed to it, and Pass has returned
	holding
)

// goroutine is a goroutine of the model, with its part of the queue.
type goroutine struct {
	stage   stage
	accepts bool
	number  int  // in the order of arrival
	stays   bool // it is a head that waits for the store

	place *Place[string, int, int]
	queue *Queue[string, int, int]
	value int // which it holds, or which was passed to it
	ended []value
}

// value is a value that was held, and its queue.
type value struct {
	v     int
	queue *Queue[string, int, int]
}

// world is the model, and the Queues with which it is compared.
type world struct {
	t          *testing.T
	shared     bool // several goroutines can hold the lock at once, so nothing is held in the queue
	queues     Queues[string, int, int]
	goroutines []*goroutine

	line    []int // the waiters in their order
	held    int
	left    int // the state of the queue
	values  int // how many were made
	arrived int
	due     int         // how many functions have to be called
	got     map[int]int // how often each value was returned
	finish  func()      // ends the Pass that is under way
	trace   []string
}

func newWorld(t *testing.T, shared bool, goroutines int) *world {
	w := &world{t: t, shared: shared, got: map[int]int{}}
	for range goroutines {
		w.goroutines = append(w.goroutines, &goroutine{})
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter: %s", fmt.Sprintf(format, args...), strings.Join(w.trace, ", "))
}

func (w *world) heads() (n int) {
	for _, g := range w.goroutines {
		if g.stage == called || g.stage == asking {
			n++
		}
	}
	return n
}

func (w *world) staying() (n int) {
	for _, g := range w.goroutines {
		if g.stays {
			n++
		}
	}
	return n
}

func (w *world) inUse() bool { return len(w.line) > 0 || w.heads() > 0 || w.held != 0 }

// step is a call that a goroutine can make.
type step struct {
	name string
	do   func(w *world, i int)
}

var (
	enter      = step{"enter", (*world).enter}
	join       = step{"join", (*world).join}
	learn      = step{"learn", (*world).learn}
	leave      = step{"leave", (*world).leave}
	hold       = step{"hold", (*world).hold}
	stay       = step{"stay", func(w *world, i int) { w.stay(i, false) }}
	stayAlways = step{"stay always", func(w *world, i int) { w.stay(i, true) }}
	admitTwo   = step{"admit two", func(w *world, i int) { w.admit(i, false) }}
	admitAll   = step{"admit all", func(w *world, i int) { w.admit(i, true) }}
	pass       = step{"pass", (*world).pass}
	passed     = step{"passed", func(w *world, _ int) { w.endPass() }}
	next       = step{"next", (*world).next}
)

// steps returns the calls that a goroutine can make now.
func (w *world) steps(i int) []step {
	switch w.goroutines[i].stage {
	case out:
		if w.shared {
			return []step{join}
		}
		return []step{enter}
	case waiting, coming:
		return []step{leave}
	case called, given:
		return []step{learn, leave}
	case asking:
		if w.shared {
			return []step{leave, stay, stayAlways, admitTwo, admitAll}
		}
		return []step{hold, leave}
	default:
		return []step{pass, next}
	}
}

func (w *world) enter(i int) {
	g := w.goroutines[i]
	begun := false
	begin := func() int { begun = true; w.left += 100; return w.left }
	free := !w.inUse()
	if !free {
		if p, head := w.queues.Enter("key", false, true, nil); p != nil || head {
			w.fail("a place for one who does not wait: %+v, %v", p, head)
		}
	}
	g.accepts = i != 2
	place, head := w.queues.Enter("key", !free, g.accepts, begin)
	g.place = place
	if begun != free || head != free {
		w.fail("in use: %v; begun: %v, head: %v", !free, begun, head)
	}
	if head {
		g.stage, g.number, g.accepts = asking, 0, false
		return
	}
	w.arrived++
	g.stage, g.number = waiting, w.arrived
	w.line = append(w.line, i)
}

// headsMost is the `most` of Join and Admit in the model.
const headsMost = 2

func (w *world) join(i int) {
	g := w.goroutines[i]
	heads := w.heads()
	free := !w.inUse()
	want := free || w.staying() == 0 && heads < headsMost && len(w.line) == 0
	if stays := w.queues.Stays("key"); stays != (w.staying() > 0) {
		w.fail("Stays: got %v", stays)
	}
	place, head := w.queues.Join("key", headsMost, func() int { w.left += 100; return w.left })
	if head != want {
		w.fail("Join: got %+v, head: %v", place, head)
	}
	g.place, g.number, g.accepts = place, 0, false
	if !free {
		w.arrived++
		g.number = w.arrived
	}
	if g.stage = asking; !head {
		g.stage = waiting
		w.line = append(w.line, i)
	}
}

// over is a context that has ended, so that Wait returns at once.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// learn calls Wait, which returns at once.
func (w *world) learn(i int) {
	g := w.goroutines[i]
	v, ok, err := g.place.Wait(over)
	switch {
	case err != nil, ok != (g.stage == given):
		w.fail("Wait: %d, %v, %v", v, ok, err)
	case ok:
		w.receive(g, v)
	default:
		g.stage = asking
	}
}

func (w *world) receive(g *goroutine, v int) {
	if v != g.value {
		w.fail("received %d, want %d", v, g.value)
	}
	if w.got[v]++; w.got[v] != 1 {
		w.fail("%d was received %d times", v, w.got[v])
	}
	g.stage, g.place = holding, nil
}

// after returns a function that expects want goroutines to be left.
func (w *world) after(want int) func(*int, int) {
	w.due++
	return func(left *int, n int) {
		if n != want || *left != w.left {
			w.fail("%d wait or ask, %d is left; want %d, %d", n, *left, want, w.left)
		}
		w.due--
		w.left++
		*left++
	}
}

func (w *world) leave(i int) {
	g := w.goroutines[i]
	if g.stage == coming { // Leave waits for the end of Pass
		w.endPass()
	}
	if g.stage == given {
		v, ok := g.place.Leave(func(*int, int) { w.fail("called for who was given a value") })
		if !ok {
			w.fail("Leave did not return what was passed on")
		}
		w.receive(g, v)
		return
	}
	remain := len(w.line) + w.heads() - 1
	head := g.stage != waiting
	if _, ok := g.place.Leave(w.after(remain)); ok {
		w.fail("Leave returned what nobody has passed on")
	}
	if !head {
		w.line = slices.DeleteFunc(w.line, func(j int) bool { return j == i })
	}
	g.stage, g.place = out, nil
	if head {
		w.headIsGone(i)
	}
}

// headIsGone makes the next waiter a head, if the last head has left.
func (w *world) headIsGone(i int) {
	w.goroutines[i].stays = false
	if w.heads() == 0 && w.held == 0 {
		w.letIn(1)
	}
}

func (w *world) letIn(n int) {
	for ; n > 0 && len(w.line) > 0; n-- {
		w.goroutines[w.line[0]].stage = called
		w.line = w.line[1:]
	}
}

func (w *world) hold(i int) {
	g := w.goroutines[i]
	w.values++
	g.value = w.values
	g.queue = g.place.Hold(g.value, w.after(len(w.line)))
	g.stage, g.place, g.stays, w.held = holding, nil, false, g.value
}

func (w *world) stay(i int, always bool) {
	g := w.goroutines[i]
	want := always || w.staying() == 0 || g.stays
	if got := g.place.Stay(always); got != want {
		w.fail("Stay: got %v", got)
	}
	if want {
		g.stays = true
		return
	}
	g.stage = waiting
	at := 0
	for at < len(w.line) && w.goroutines[w.line[at]].number < g.number {
		at++
	}
	w.line = slices.Insert(w.line, at, i)
}

func (w *world) admit(i int, all bool) {
	g := w.goroutines[i]
	n := 2
	switch {
	case all:
		n = len(w.line)
	case w.staying() > 0:
		n = 1
	}
	others := w.heads() - 1
	g.place.Admit(all, headsMost, w.after(len(w.line)+others))
	w.letIn(min(n, headsMost-others))
	g.stage, g.place = out, nil
	w.headIsGone(i)
}

// pass begins a Pass, and stops before the receiver may go on.
func (w *world) pass(i int) {
	g := w.goroutines[i]
	queue, former := g.queue, g.value
	w.values++
	v := w.values
	want := len(w.line) > 0 && w.goroutines[w.line[0]].accepts
	ahead, resume, ended := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
	go func() {
		ended <- queue.Pass(former, func() (int, bool) { return v, true }, func() { close(ahead); <-resume })
	}()
	select {
	case <-ahead:
	case ok := <-ended:
		if ok || want {
			w.fail("Pass: got %v, want %v", ok, want)
		}
		return
	}
	if !want {
		w.fail("passed on although nobody takes it")
	}
	b := w.goroutines[w.line[0]]
	w.line = w.line[1:]
	b.stage, b.value, b.queue = coming, v, queue
	w.held = v
	w.end(g)
	w.finish = func() {
		close(resume)
		if !<-ended {
			w.fail("Pass: got false after it had passed on")
		}
		b.stage = given
	}
}

func (w *world) endPass() {
	w.finish()
	w.finish = nil
}

// end ends a goroutine's hold.
func (w *world) end(g *goroutine) {
	g.ended = append(g.ended, value{g.value, g.queue})
	g.ended = g.ended[max(len(g.ended)-3, 0):]
	g.stage, g.queue, g.value = out, nil, 0
}

func (w *world) next(i int) {
	g := w.goroutines[i]
	if !g.queue.Next(g.value, w.after(len(w.line))) {
		w.fail("Next: got false")
	}
	w.end(g)
	w.held = 0
	w.letIn(1)
}

// do makes a step, and compares.
func (w *world) do(i int, s step) {
	w.trace = append(w.trace, fmt.Sprintf("%d %s", i, s.name))
	s.do(w, i)
	w.compare()
}

// all returns all steps that are possible now, each with its goroutine.
func (w *world) all() (of []int, steps []step) {
	if w.finish != nil {
		of, steps = append(of, 0), append(steps, passed)
	}
	for i, g := range w.goroutines {
		for _, s := range w.steps(i) {
			if s.name == pass.name && w.finish != nil { // one Pass at a time is enough
				continue
			}
			of, steps = append(of, i), append(steps, s)
		}
		if g.arrivedNever() { // all goroutines that have done nothing yet are alike
			break
		}
	}
	return of, steps
}

func (g *goroutine) arrivedNever() bool { return g.stage == out && g.number == 0 && len(g.ended) == 0 }

// compare compares everything.
func (w *world) compare() {
	if w.due != 0 {
		w.fail("%d functions that were passed in were not called", w.due)
	}
	var held, left int
	found := w.queues.Do("key", func(h int, l *int) { held, left = h, *l })
	if found != w.inUse() || held != w.held || found && left != w.left {
		w.fail("found %v, %d is held, %d left; want %v, %d, %d", found, held, left, w.inUse(), w.held, w.left)
	}
	for _, g := range w.goroutines {
		w.compareGoroutine(g)
	}
	if q := w.queues.inUse["key"]; q != nil {
		w.compareQueue(q)
	}
	w.compareUnused()
}

// compareGoroutine makes calls that must change nothing.
func (w *world) compareGoroutine(g *goroutine) {
	if g.stage == waiting || g.stage == coming {
		if v, ok, err := g.place.Wait(over); err == nil {
			w.fail("Wait of a waiter: %d, %v", v, ok)
		}
	}
	none := func() (int, bool) { return 0, false }
	for _, old := range g.ended {
		if old.queue.Next(old.v, func(*int, int) { w.fail("called for what is over") }) ||
			old.queue.Pass(old.v, func() (int, bool) { w.fail("asked for what is over"); return none() }, nil) {
			w.fail("%d is over, and was let go of once more", old.v)
		}
	}
	if g.stage == holding && (g.queue.Pass(g.value, none, nil) || g.queue.Waits() != (len(w.line) > 0)) {
		w.fail("passed on against the will of the holder, or %v", g.queue.Waits())
	}
}

// compareQueue compares a queue with the model.
func (w *world) compareQueue(q *Queue[string, int, int]) {
	if q.heads != w.heads() || q.heads > 0 == (q.held != 0) || int(q.waiters.Load()) != len(w.line) {
		w.fail("%d heads, %d waiters, %d is held; want %d, %d, %d", q.heads, q.waiters.Load(), q.held, w.heads(), len(w.line), w.held)
	}
	before := q.sentinel
	for k, i := range w.line {
		p := w.goroutines[i].place
		if before.next != p || p.prev != before || p.queue != q || p.head || p.given != 0 {
			w.fail("place %d of the waiters is not that of %d: %+v", k, i, p)
		}
		before = p
	}
	if before.next != q.sentinel || q.sentinel.prev != before {
		w.fail("there are more waiters than %v", w.line)
	}
	if q.staying != w.staying() {
		w.fail("%d stay, want %d", q.staying, w.staying())
	}
	for i, g := range w.goroutines {
		if g.place != nil && g.place.stays != g.stays {
			w.fail("%d stays: %v, want %v", i, g.place.stays, g.stays)
		}
	}
}

// compareUnused checks the queues and places that are kept for later use.
func (w *world) compareUnused() {
	used := map[any]bool{}
	for _, g := range w.goroutines {
		used[g.place] = true
	}
	for _, p := range w.queues.places {
		if used[p] || len(p.ready) > 0 || *p != (Place[string, int, int]{ready: p.ready}) {
			w.fail("a place to be used again: %+v", p)
		}
		used[p] = true
	}
	for _, q := range w.queues.queues {
		if used[q] || q == w.queues.inUse["key"] || q.use != (use[string, int, int]{}) || q.waiters.Load() != 0 || q.sentinel.next != q.sentinel || q.sentinel.prev != q.sentinel {
			w.fail("a queue to be used again: %+v", &q.use)
		}
		used[q] = true
	}
}

// endAll lets all goroutines end without giving up. None of them may be left.
func (w *world) endAll() {
	if w.finish != nil {
		w.do(0, passed)
	}
	for range 3 * len(w.goroutines) {
		for i, g := range w.goroutines {
			switch g.stage {
			case called, given:
				w.do(i, learn)
			case asking:
				w.do(i, leave)
			case holding:
				w.do(i, next)
			}
		}
	}
	for i, g := range w.goroutines {
		if g.stage != out {
			w.fail("%d was forgotten, at stage %d", i, g.stage)
		}
	}
	w.compare()
}

// TestEveryInterleaving makes every sequence of so many steps of three goroutines.
func TestEveryInterleaving(t *testing.T) {
	t.Run("exclusive", func(t *testing.T) { everyInterleaving(t, false, 8) })
	t.Run("shared", func(t *testing.T) { everyInterleaving(t, true, 6) })
}

func everyInterleaving(t *testing.T, shared bool, depth int) {
	sequences := 0
	var explore func(path []int)
	explore = func(path []int) {
		w := newWorld(t, shared, 3)
		for _, choice := range path {
			of, steps := w.all()
			w.do(of[choice], steps[choice])
		}
		if len(path) < depth {
			of, _ := w.all()
			n := len(of)
			if w.finish != nil {
				w.endPass()
			}
			for choice := range n {
				explore(append(path[:len(path):len(path)], choice))
			}
			return
		}
		sequences++
		w.endAll()
	}
	explore(nil)
	t.Logf("%d sequences of %d steps", sequences, depth)
	if sequences < 1000 {
		t.Error("so few are not all")
	}
}

// TestRandomInterleavings makes long random sequences of more goroutines.
func TestRandomInterleavings(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, seed%2 == 1, 6)
		for range 2000 {
			of, steps := w.all()
			choice := r.IntN(len(of))
			w.do(of[choice], steps[choice])
			if len(w.trace) > 100 {
				w.trace = slices.Delete(w.trace, 0, 50)
			}
		}
		w.endAll()
	}
}
