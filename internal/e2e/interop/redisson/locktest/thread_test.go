package locktest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

// notHeld is what Java throws at a thread that unlocks what it does not hold.
const notHeld = "java.lang.IllegalMonitorStateException"

// thread is a thread of Java, and the lock that it uses.
type thread struct {
	t    *testing.T
	jvm  *peer.Process
	kind string // "lock" for RLock, as peer.Command has it
	id   string
	name string
}

// java returns a thread of the JVM that all cases share, with an RLock of the
// case's name. id must be the case's own.
func java(t *testing.T, b *redisson.Bench, id string) thread {
	return thread{t, b.Java, "lock", id, b.Name}
}

// of returns the same thread with a lock of another kind.
func (j thread) of(kind string) thread {
	j.kind = kind
	return j
}

// in returns a thread in another JVM.
func (j thread) in(jvm *peer.Process) thread {
	j.jvm = jvm
	return j
}

// at returns the same thread with a lock of another name.
func (j thread) at(name string) thread {
	j.name = name
	return j
}

func (j thread) command(op string, wait, lease time.Duration) peer.Command {
	return peer.Command{
		Thread: j.id, Op: op, Kind: j.kind, Name: j.name,
		Wait: wait.Milliseconds(), Lease: lease.Milliseconds(),
	}
}

// do has the thread do something that must succeed.
func (j thread) do(op string) peer.Reply {
	j.t.Helper()
	return j.must(j.command(op, 0, 0))
}

func (j thread) must(c peer.Command) peer.Reply {
	j.t.Helper()
	return j.answered(c, j.jvm.Go(c), patience)
}

// try has the thread do something that may throw.
func (j thread) try(c peer.Command) peer.Reply {
	j.t.Helper()
	return j.await(c, j.jvm.Go(c), patience)
}

// await waits for an answer, and fails the case itself if there is none.
func (j thread) await(c peer.Command, answer <-chan peer.Reply, limit time.Duration) peer.Reply {
	j.t.Helper()
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case r, ok := <-answer:
		if !ok {
			j.t.Fatalf("%s %s %q: the JVM ended", c.Op, c.Kind, c.Name)
		}
		return r
	case <-over.C:
		j.t.Fatalf("%s %s %q: no answer within %v", c.Op, c.Kind, c.Name, limit)
		return peer.Reply{}
	}
}

func (j thread) answered(c peer.Command, answer <-chan peer.Reply, limit time.Duration) peer.Reply {
	j.t.Helper()
	r := j.await(c, answer, limit)
	if err := r.Err(); err != nil {
		j.t.Fatalf("%s %s %q: %v", c.Op, c.Kind, c.Name, err)
	}
	return r
}

// lock takes the lock; a lease of 0 is the watchdog's.
func (j thread) lock(lease time.Duration) {
	j.t.Helper()
	j.must(j.command("lock", 0, lease))
}

// tryLock waits for as long as wait for the lock.
func (j thread) tryLock(wait, lease time.Duration) bool {
	j.t.Helper()
	return j.must(j.command("tryLock", wait, lease)).Bool()
}

// wantBusy wants the thread to be refused.
func (j thread) wantBusy() {
	j.t.Helper()
	if j.do("tryLock").Bool() {
		j.t.Fatalf("Java got %q, which Go holds", j.name)
	}
}

func (j thread) unlock() {
	j.t.Helper()
	j.do("unlock")
}

// wantNotHeld wants the thread to learn, at unlock, that it holds nothing.
func (j thread) wantNotHeld() {
	j.t.Helper()
	if r := j.try(j.command("unlock", 0, 0)); r.Class != notHeld {
		j.t.Errorf("unlock of what is gone: %v, want %s", r.Err(), notHeld)
	}
}

// queued is a thread of Java that waits in a call.
type queued struct {
	thread
	c      peer.Command
	answer <-chan peer.Reply
}

// begin has the thread wait for the lock.
func (j thread) begin(op string, wait, lease time.Duration) queued {
	c := j.command(op, wait, lease)
	return queued{j, c, j.jvm.Go(c)}
}

// wantWaiting wants the thread to wait still.
func (q queued) wantWaiting() {
	q.t.Helper()
	select {
	case r := <-q.answer:
		q.t.Fatalf("%s %s %q: %s, error %v, want none yet", q.c.Op, q.kind, q.name, r.Value, r.Err())
	default:
	}
}

// got waits until the thread has the lock, and returns when that was.
func (q queued) got() time.Time {
	q.t.Helper()
	r := q.answered(q.c, q.answer, patience)
	if q.c.Op == "tryLock" && !r.Bool() {
		q.t.Fatalf("tryLock %s %q: refused", q.kind, q.name)
	}
	return r.Received
}
