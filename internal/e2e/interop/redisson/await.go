package redisson

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// patience is how long a state, or an answer, may take that nothing bounds.
const patience = 30 * time.Second

// Await returns when state holds, of which only the server or a JVM knows.
func Await(t testing.TB, what string, state func() bool) {
	t.Helper()
	await.Until(t, patience, what, state)
}

// Listeners returns how many clients listen on a channel of one server.
func Listeners(server redistest.Admin, channel string) int64 {
	return heard(server.Do("PUBSUB", "NUMSUB", channel))
}

// ShardedListeners is Listeners for a sharded channel.
func ShardedListeners(server redistest.Admin, channel string) int64 {
	return heard(server.Do("PUBSUB", "SHARDNUMSUB", channel))
}

func heard(reply any) int64 {
	list, _ := reply.([]any)
	if len(list) != 2 {
		return -1
	}
	n, _ := list[1].(int64)
	return n
}

// AwaitGo returns when goroutines sleep in what they wait for: they listen, of which
// listens says, and have asked for what is kept at key since, with a script of
// Holdfast's. They ask each second by themselves, and so not again within WakeLimit.
// For a thread of Java see Thread.AwaitSleep.
func AwaitGo(t testing.TB, server redistest.Admin, script, key, what string, listens func() bool) {
	t.Helper()
	Await(t, what, listens)
	sha := redistest.ScriptSHA(t, script)
	server.Bind(t).AwaitCommand(what+" and asks once more", func(args []string) bool {
		return len(args) > 2 && args[1] == sha && slices.Contains(args, key)
	})
}

// Pending is a call that may wait, in a goroutine of its own.
type Pending[T any] struct {
	t    testing.TB
	what string
	done chan struct{} // closed when the rest is there

	value T
	err   error
	at    time.Time
}

// Later begins a call. It ends with the test, which waits for it.
func Later[T any](t testing.TB, what string, call func(context.Context) (T, error)) *Pending[T] {
	p := &Pending[T]{t: t, what: what, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.value, p.err = call(t.Context())
		p.at = time.Now()
	}()
	t.Cleanup(func() { <-p.done })
	return p
}

// Wait returns what the call returned, and when. An error fails the test.
func (p *Pending[T]) Wait() (T, time.Time) {
	p.t.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-p.done:
	case <-over.C:
		p.t.Fatalf("%s: waits still after %v", p.what, patience)
	}
	if p.err != nil {
		p.t.Fatalf("%s: %v", p.what, p.err)
	}
	return p.value, p.at
}

// Waits reports that the call has not returned.
func (p *Pending[T]) Waits() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Woken reports a wake-up. It has to come within WakeLimit after since began, not counting
// the machine's own delays. since began before the call that released the lock.
func Woken(t *testing.T, who string, since *await.Watch, at time.Time) {
	t.Helper()
	took := at.Sub(since.Began)
	t.Logf("%s: %v", who, took)
	t.Attr("wake-up", took.Round(100*time.Microsecond).String())
	WantSoon(t, who, took, since.Late())
}

// WantSoon wants a wake-up to take no more than WakeLimit, and what it had to wait for
// a processor.
func WantSoon(t *testing.T, who string, took, late time.Duration) {
	t.Helper()
	if took > WakeLimit+late {
		t.Errorf("%s: woke up after %v, want %v at most; the machine stood still for %v", who, took, WakeLimit, late)
	}
}
