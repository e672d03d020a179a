package mutextest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

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
		Op: op, Kind: j.kind, Name: j.name,
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
	return j.shared().Do(c)
}

// try has the thread do something that may throw.
func (j thread) try(c peer.Command) peer.Reply {
	j.t.Helper()
	return j.shared().Try(c)
}

// shared is the same thread, without a lock.
func (j thread) shared() redisson.Thread { return redisson.ThreadOf(j.t, j.jvm, j.id) }

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
	if r := j.try(j.command("unlock", 0, 0)); r.Class != redisson.NotHeld {
		j.t.Errorf("unlock of what is gone: %v, want %s", r.Err(), redisson.NotHeld)
	}
}

// queued is a thread of Java that waits in a call.
type queued struct {
	thread
	op     string
	answer redisson.Answer
}

// begin has the thread wait for the lock.
func (j thread) begin(op string, wait, lease time.Duration) queued {
	return queued{j, op, j.shared().Begin(j.command(op, wait, lease))}
}

// asleep waits until the thread sleeps, from which the unlock's message wakes it.
func (q queued) asleep() {
	q.t.Helper()
	q.shared().AwaitSleep()
}

// wantWaiting wants the thread to wait still.
func (q queued) wantWaiting() {
	q.t.Helper()
	if !q.answer.Waits() {
		r := q.answer.Ended()
		q.t.Fatalf("%s %s %q: %s, error %v, want none yet", q.op, q.kind, q.name, r.Value, r.Err())
	}
}

// got waits until the thread has the lock, and returns when that was.
func (q queued) got() time.Time {
	q.t.Helper()
	r := q.answer.Wait()
	if q.op == "tryLock" && !r.Bool() {
		q.t.Fatalf("tryLock %s %q: refused", q.kind, q.name)
	}
	return r.Received
}
