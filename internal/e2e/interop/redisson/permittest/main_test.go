// Package permittest is Redisson's semaphores and its latch beside Holdfast's.
package permittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
)

func TestMain(m *testing.M) {
	redisson.Prepare(4)
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

// rounds are the adapters of Go's side. The first one is there twice: in its first
// round the JVM loads what the others then measure.
func rounds() []string { return []string{"rueidis", "rueidis", "goredis"} }

// woken wants a wake-up of one of the rounds to come in time.
func woken(t *testing.T, round int, who string, since *await.Watch, at time.Time) {
	t.Helper()
	if round > 0 {
		redisson.Woken(t, who, since, at)
	}
}

// object is what a thread of Java does with the case's semaphore or latch.
type object struct {
	redisson.Thread
	kind, name string // kind as peer.Command has it
}

// java returns the thread called who in the JVM that all cases share.
func java(t *testing.T, b *redisson.Bench, kind, who string) object {
	return object{redisson.ThreadOf(t, b.Java, who), kind, b.Name}
}

// command returns the command for a thread. n is of permits, or a count.
func (j object) command(op string, n int64) peer.Command {
	return peer.Command{Op: op, Kind: j.kind, Name: j.name, N: n}
}

func (j object) do(op string, n int64) peer.Reply { return j.Do(j.command(op, n)) }

// begin has the thread wait, and returns when it sleeps.
func (j object) begin(t *testing.T, c peer.Command) redisson.Answer {
	t.Helper()
	a := j.Begin(c)
	j.AwaitSleep()
	return a
}

// wantNumber wants a number of Java's.
func (j object) wantNumber(t *testing.T, op string, want int64) {
	t.Helper()
	if got := j.do(op, 0).Int(); got != want {
		t.Fatalf("Java, %s: got %d, want %d", op, got, want)
	}
}

// want wants an answer of Java's to be yes, or no.
func (j object) want(t *testing.T, c peer.Command, want bool) {
	t.Helper()
	if got := j.Do(c).Bool(); got != want {
		t.Fatalf("Java, %s of %d: got %v, want %v", c.Op, c.N, got, want)
	}
}

// drop deletes what a semaphore leaves forever, and wants nothing else to be left.
func drop(t *testing.T, b *redisson.Bench) {
	t.Helper()
	if left := b.Admin().Strings("ZRANGE", permitsOut(b), "0", "-1", "WITHSCORES"); len(left) != 0 {
		t.Errorf("permits left: %q", left)
	}
	if b.Admin().Int("DEL", b.Name) != 1 {
		t.Error("the counter is gone")
	}
}
