package queue_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// alone enters a queue in which no other goroutine waits, and leaves it.
func alone(qs *queues, v *item) {
	p, _ := qs.Enter("key", true, true, begin)
	q := p.Hold(v, nothing)
	if !q.Pass(v, func() (*item, bool) { return v, true }, func() {}) {
		q.Next(v, nothing)
	}
}

// comeAndGo enters a queue and leaves it.
func comeAndGo(qs *queues) {
	p, _ := qs.Enter("key", true, true, begin)
	p.Leave(nothing)
}

// passOn passes held on to a goroutine that waits, and returns what that goroutine got.
func passOn(b testing.TB, qs *queues, q *queue.Queue[string, *item, int], held, next *item) *item {
	p, _ := qs.Enter("key", true, true, begin)
	ahead := 0
	q.Pass(held, func() (*item, bool) { ahead++; return next, true }, func() { ahead++ })
	v, given, _ := p.Wait(b.Context())
	if !given || ahead != 2 {
		b.Fatal("not passed on")
	}
	return v
}

// Queues and places are used again, and no function that a caller passes escapes.
func TestNothingIsAllocated(t *testing.T) {
	var qs queues
	v := new(item)
	for name, fn := range map[string]func(){
		"a pair alone":    func() { alone(&qs, v) },
		"enter and leave": func() { comeAndGo(&qs) },
	} {
		if n := testing.AllocsPerRun(1000, fn); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	held, q := holder(t, &qs)
	other := new(item)
	if n := testing.AllocsPerRun(1000, func() {
		passOn(t, &qs, q, held, other)
		held, other = other, held
	}); n != 0 {
		t.Errorf("a pass: %v allocations", n)
	}
}

func BenchmarkPairAlone(b *testing.B) {
	b.ReportAllocs()
	var qs queues
	v := new(item)
	for b.Loop() {
		alone(&qs, v)
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	b.ReportAllocs()
	var qs queues
	for b.Loop() {
		comeAndGo(&qs)
	}
}

func BenchmarkPass(b *testing.B) {
	b.ReportAllocs()
	var qs queues
	p, _ := qs.Enter("key", true, true, begin)
	held, other := new(item), new(item)
	q := p.Hold(held, nothing)
	for b.Loop() {
		passOn(b, &qs, q, held, other)
		held, other = other, held
	}
}
