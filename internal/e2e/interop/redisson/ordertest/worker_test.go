package ordertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

// waitLimit is how long a test waits for what should come at once or by itself
// after some seconds.
const waitLimit = 30 * time.Second

// worker is a goroutine, or a thread of Java, that uses the case's lock.
type worker struct {
	t    *testing.T
	b    *redisson.Bench
	who  string
	ask  func() (*holdfast.Lock, time.Time, error) // returns when the lock is there
	give func() error

	sleep func() // returns when a thread of Java sleeps in what it waits for; nil in Go

	answer chan answer
	lock   *holdfast.Lock // what it holds, in Go
}

type answer struct {
	lock *holdfast.Lock
	at   time.Time
	err  error
}

// inGo returns a worker with that kind of lock.
func inGo(t *testing.T, b *redisson.Bench, m *holdfast.Mutex) *worker {
	return inGoAs(t.Context(), t, b, m)
}

// inGoAs is inGo with a context that may carry an owner.
func inGoAs(ctx context.Context, t *testing.T, b *redisson.Bench, m *holdfast.Mutex) *worker {
	w := &worker{t: t, b: b, who: "Go"}
	w.ask = func() (*holdfast.Lock, time.Time, error) {
		lock, err := m.Lock(ctx)
		return lock, time.Now(), err
	}
	w.give = func() error { return w.lock.Unlock() }
	return w
}

// jvm starts a client of the case's own; change may be nil.
func jvm(t *testing.T, b *redisson.Bench, change func(*redisson.Settings)) *peer.Process {
	t.Helper()
	java := b.JVM(change)
	warm(t, b, java)
	return java
}

// warm makes a JVM wait and be woken once, which takes it long the first time: it
// has to load what it needs for that.
func warm(t *testing.T, b *redisson.Bench, java *peer.Process) {
	t.Helper()
	name := b.Name + ":warm"
	for _, kind := range []string{"fair", "write"} {
		c := peer.Command{Op: "lock", Kind: kind, Name: name, Thread: name + "-a"}
		holder := inJavaFor(t, b, java, c).has()
		c.Thread = name + "-b"
		waiter := inJavaFor(t, b, java, c).asleep()
		holder.unlock()
		waiter.granted()
		waiter.unlock()
	}
}

// inJava returns the worker that is a thread of java. Its lease is Redisson's.
func inJava(t *testing.T, b *redisson.Bench, java *peer.Process, kind, thread string) *worker {
	return inJavaFor(t, b, java, peer.Command{Op: "lock", Kind: kind, Name: b.Name, Thread: thread})
}

// inJavaFor is inJava with the command that takes the lock.
func inJavaFor(t *testing.T, b *redisson.Bench, java *peer.Process, c peer.Command) *worker {
	unlock := c
	unlock.Op = "unlock"
	thread := redisson.ThreadOf(t, java, c.Thread)
	return &worker{
		t: t, b: b, who: "Java " + c.Thread,
		ask: func() (*holdfast.Lock, time.Time, error) {
			r, ok := <-java.Go(c)
			if !ok {
				return nil, time.Time{}, errors.New("the JVM ended")
			}
			if c.Op == "tryLock" && r.Err() == nil && !r.Bool() {
				return nil, r.Received, holdfast.ErrBusy
			}
			return nil, r.Received, r.Err()
		},
		give:  func() error { return thread.Try(unlock).Err() },
		sleep: thread.AwaitSleep,
	}
}

// wait makes w ask for the lock, and returns at once.
func (w *worker) wait() *worker {
	w.answer = make(chan answer, 1)
	go func() { // ends with the test's context, or with the JVM
		lock, at, err := w.ask()
		w.answer <- answer{lock, at, err}
	}()
	return w
}

// asleep makes w, of Java, ask for the lock, and returns when it sleeps: no timer
// wakes it before its lease or that of the holder is over.
func (w *worker) asleep() *worker {
	w.t.Helper()
	w.wait()
	w.sleep()
	return w
}

// has makes w take the lock, which nobody keeps from it.
func (w *worker) has() *worker {
	w.t.Helper()
	w.wait().granted()
	return w
}

// ended waits for what became of asking.
func (w *worker) ended() answer {
	w.t.Helper()
	over := time.NewTimer(waitLimit)
	defer over.Stop()
	select {
	case a := <-w.answer:
		return a
	case <-over.C:
		w.t.Fatalf("%s still waits after %v", w.who, waitLimit)
	}
	return answer{}
}

// granted waits until w has the lock, and returns when that was.
func (w *worker) granted() time.Time {
	w.t.Helper()
	a := w.ended()
	if a.err != nil {
		w.t.Fatalf("%s: %v", w.who, a.err)
	}
	w.lock = a.lock
	return a.at
}

// waits fails the test if w does not wait any more.
func (w *worker) waits() {
	w.t.Helper()
	select {
	case a := <-w.answer:
		w.t.Fatalf("%s did not wait: %v", w.who, a.err)
	default:
	}
}

// unlock releases the lock.
func (w *worker) unlock() {
	w.t.Helper()
	if err := w.give(); err != nil {
		w.t.Fatalf("%s: unlock: %v", w.who, err)
	}
}

// hand makes w unlock, and waits until next have the lock, which a message has to
// tell: it has to be there soon. How long Java takes to tell Java is its own affair.
func (w *worker) hand(next ...*worker) {
	w.t.Helper()
	w.handAfter(func() {}, next...)
}

// handAfter is hand with something to wait for first, from when on no JVM starts.
func (w *worker) handAfter(ready func(), next ...*worker) {
	w.t.Helper()
	quiet := w.b.Quiet()
	quiet.Lock()
	defer quiet.Unlock()
	ready()
	began := await.NewWatch(w.t)
	w.unlock()
	var slowest time.Duration
	for _, n := range next {
		took := n.granted().Sub(began.Began)
		if w.sleep != nil && n.sleep != nil {
			continue
		}
		redisson.WantSoon(w.t, n.who+" after "+w.who, took, began.Late())
		slowest = max(slowest, took)
	}
	if slowest > 0 {
		w.t.Attr("wake-up", slowest.Round(100*time.Microsecond).String())
	}
}

// between fails the test unless d lies between two bounds.
func between(t *testing.T, what string, d, least, most time.Duration) {
	t.Helper()
	if d < least || d > most {
		t.Errorf("%s: got %v, want %v to %v", what, d, least, most)
	}
}
