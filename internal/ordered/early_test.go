package ordered_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// line is a queue of mutex claims, with Engine.Early: the first holds, and the last waits.
type line struct {
	*testing.T
	store  *memory
	ps     []*process
	claims []driver.Claim
	last   driver.Outcome // of the last
	out    chan driver.Outcome
}

func queueUp(t *testing.T, n int) *line {
	q := &line{T: t, out: make(chan driver.Outcome, 1)}
	q.store, q.ps = processes(t, n)
	for i, p := range q.ps {
		p.Early = true
		q.claims = append(q.claims, p.claim())
		q.last = p.granted(q.claims[i], i == 0)
	}
	return q
}

// wait has the last one wait, until the queue of goroutines is at rest for a while.
func (q *line) wait() {
	p := q.ps[len(q.ps)-1]
	w := p.Waiter(q.claims[len(q.ps)-1])
	q.Cleanup(w.Close)
	go func() {
		out, err := w.Wait(context.Background(), q.last)
		if err != nil {
			q.Errorf("Wait: %v", err)
		}
		q.out <- out
	}()
	q.rest()
}

func (q *line) rest() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

// leave has one leave the queue, and returns how often the queue was read since.
func (q *line) leave(i int) (reads int) {
	before := q.store.count("queue")
	q.ps[i].release(q.claims[i])
	q.rest()
	return q.store.count("queue") - before
}

// granted requires that the last one was granted, or waits.
func (q *line) granted(want bool) {
	q.Helper()
	select {
	case out := <-q.out:
		if out.Granted != want {
			q.Fatalf("Wait returned %+v, want that it is granted: %v", out, want)
		}
	default:
		if want {
			q.Fatal("Wait has not returned")
		}
	}
}

// The queue is read while the one ahead holds, and not after its release.
func TestQueueIsReadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queueUp(t, 3)
		q.wait()
		if n := q.leave(0); n != 1 {
			t.Errorf("%d reads when the one ahead began to hold, want one", n)
		}
		q.granted(false)
		if n := q.leave(1); n != 0 {
			t.Errorf("%d reads after the release, want none", n)
		}
		q.granted(true)
	})
	synctest.Test(t, func(t *testing.T) {
		q := queueUp(t, 2)
		q.wait()
		if n := q.leave(0); n != 0 {
			t.Errorf("%d reads after the release of the only one ahead, want none", n)
		}
		q.granted(true)
	})
}

// Whoever leaves the queue in whatever order, the last one holds when all have left, and
// not before.
func TestEarlyInAnyOrder(t *testing.T) {
	for _, order := range [][]int{
		{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := queueUp(t, 4)
			q.wait()
			for n, i := range order {
				q.leave(i)
				select {
				case out := <-q.out:
					if out.Granted && n < 2 {
						t.Fatalf("%v: granted after %d have left, of 3", order, n+1)
					}
					if !out.Granted { // as the core does
						p := q.ps[3]
						if q.last = p.granted(q.claims[3], n == 2); n < 2 {
							q.wait()
						}
					}
				default:
					if n == 2 {
						t.Fatalf("%v: not granted when all have left", order)
					}
				}
			}
		})
	}
}

// Writers may leave a part of their entry to their readers, so their queue is read late.
func TestReadWriteLockIsNotReadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ps := processes(t, 2)
		var claims []driver.Claim
		var last driver.Outcome
		for i, p := range ps {
			p.Early = true
			c := p.claim()
			c.ReadWrite = true
			claims = append(claims, c)
			last = p.granted(c, i == 0)
		}
		w := ps[1].Waiter(claims[1])
		defer w.Close()
		go func() {
			time.Sleep(time.Second)
			ps[0].release(claims[0])
		}()
		if out, err := w.Wait(t.Context(), last); err != nil || !out.Granted {
			t.Errorf("got %+v and error %v, want a grant", out, err)
		}
		if n := m.count("queue"); n != 1 {
			t.Errorf("%d reads, want one after the release", n)
		}
	})
}
