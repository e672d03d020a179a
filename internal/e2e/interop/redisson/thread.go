package redisson

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
)

// NotHeld is the class of what Redisson throws at a thread that unlocks what it does
// not hold.
const NotHeld = "java.lang.IllegalMonitorStateException"

// Thread is a thread of a JVM, for one test: what goes wrong there fails that
// test, also where the JVM is shared.
type Thread struct {
	t   testing.TB
	jvm *peer.Process
	id  string
}

// ThreadOf returns a thread of a JVM. id has to be the test's own.
func ThreadOf(t testing.TB, jvm *peer.Process, id string) Thread { return Thread{t, jvm, id} }

// Do has the thread do something that must succeed.
func (j Thread) Do(c peer.Command) peer.Reply {
	j.t.Helper()
	return j.Begin(c).Wait()
}

// Try has the thread do something that may throw.
func (j Thread) Try(c peer.Command) peer.Reply {
	j.t.Helper()
	return j.Begin(c).Ended()
}

// Begin has the thread do something that may wait.
func (j Thread) Begin(c peer.Command) Answer {
	c.Thread = j.id
	return Answer{j, c, j.jvm.Go(c)}
}

// AwaitSleep returns when the thread has subscribed, has tried once more and
// sleeps until a notice, or until a time of its own.
func (j Thread) AwaitSleep() {
	j.t.Helper()
	asks := Thread{j.t, j.jvm, j.id + " watched"}
	Await(j.t, "thread "+j.id+" of Java sleeps in what it waits for", func() bool {
		return asks.Do(peer.Command{Op: "sleeps", Value: j.id}).Bool()
	})
}

// Answer is that of a thread, or will be.
type Answer struct {
	j  Thread
	c  peer.Command
	is <-chan peer.Reply
}

// Wait returns the answer. Whatever was thrown fails the test.
func (a Answer) Wait() peer.Reply {
	a.j.t.Helper()
	r := a.Ended()
	if err := r.Err(); err != nil {
		a.j.t.Fatalf("Java, %s %s %q: %v", a.c.Op, a.c.Kind, a.c.Name, err)
	}
	return r
}

// Ended returns the answer, which may be something thrown.
func (a Answer) Ended() peer.Reply {
	a.j.t.Helper()
	over := time.NewTimer(patience + time.Duration(a.c.Wait)*time.Millisecond)
	defer over.Stop()
	select {
	case r, ok := <-a.is:
		if !ok {
			a.j.t.Fatalf("Java, %s %s %q: the JVM ended", a.c.Op, a.c.Kind, a.c.Name)
		}
		return r
	case <-over.C:
		a.j.t.Fatalf("Java, %s %s %q: no answer", a.c.Op, a.c.Kind, a.c.Name)
		return peer.Reply{}
	}
}

// Waits reports that there is no answer yet. It must not be called after Wait.
func (a Answer) Waits() bool { return len(a.is) == 0 }
