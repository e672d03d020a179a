package ordertest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// longTTL is that of Lockers of which nothing is to end by itself.
const longTTL = 20 * time.Second

// The fair lock.
func TestFair(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "27 Go and Java in turn, first come, first served", Run: firstCome},
		{Name: "28 One message for each release, to the head alone", Run: oneMessage},
		{Name: "29 Go gives up in the middle of the queue", Run: goGivesUp},
		{Name: "30 Java gives up before Go", Run: javaGivesUp},
		{Name: "31 Go dies at the head", Run: goHeadDies},
		{Name: "32 Java dies at the head", Run: javaHeadDies},
		{Name: "33a A hold that outlasts the waits", From: "3.46.0", Run: javaRotates},
		{Name: "33b A hold that outlasts Go's presence, and Java's wait off its deadline", Run: javaSubtracts},
		{Name: "34 Trying does not pass the queue", Run: noBarging},
		{Name: "35 A Java waiter is interrupted", Run: interrupted},
		{Name: "36a The server's clock 30 s ahead of Java's", Run: serverAhead},
		{Name: "36b The server's clock behind Java's", Run: serverBehind},
	})
}

func firstCome(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	q := queueOf(t, b)
	goredis := b.Over(b.Through("goredis", redishold.Options{}), longTTL)
	holder := inJava(t, b, b.Java, "fair", "c27-a").has()
	second := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	secondOwner := q.joined(1)
	third := inJava(t, b, b.Java, "fair", "c27-c").wait()
	q.joined(2)
	fourth := inGo(t, b, goredis.FairMutex(b.Name)).wait()
	fourthOwner := q.joined(3)

	holder.handAfter(func() { q.polled(secondOwner) }, second)
	third.waits()
	fourth.waits()
	second.hand(third)
	fourth.waits()
	third.handAfter(func() { q.polled(fourthOwner) }, fourth)
	fourth.unlock()
}

func oneMessage(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	q := queueOf(t, b)
	heard := q.admin.Listen(q.channel("*"))
	queued := []*worker{
		inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).has(),
		inJava(t, b, b.Java, "fair", "c28-b"),
		inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)),
		inJava(t, b, b.Java, "fair", "c28-d"),
	}
	var want []redistest.Message
	for n, w := range queued[1:] {
		w.wait()
		want = append(want, redistest.Message{Channel: q.channel(q.joined(n + 1)), Payload: "0"})
	}
	for n, w := range queued {
		w.unlock()
		if n+1 < len(queued) {
			queued[n+1].granted()
		}
		// What comes before the mark was sent before it; the last release has
		// nobody to tell.
		q.admin.Int("PUBLISH", q.channel("mark"), "0")
		got := heard.Wait(min(n+1, len(want)) + n + 1)
		got = slices.DeleteFunc(got, func(m redistest.Message) bool { return m.Channel == q.channel("mark") })
		if sent := want[:min(n+1, len(want))]; !slices.Equal(got, sent) {
			t.Fatalf("after %d releases: got %v, want %v", n+1, got, sent)
		}
	}
}

func goGivesUp(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	q := queueOf(t, b)
	holder := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).has()
	second := inJava(t, b, b.Java, "fair", "c29-b").wait()
	secondOwner := q.joined(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	quitter := inGoAs(ctx, t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	quitterOwner := q.joined(2)
	fourth := inJava(t, b, b.Java, "fair", "c29-d").wait()
	fourthOwner := q.joined(3)
	last := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).wait()
	lastOwner := q.joined(4)
	q.want(secondOwner, quitterOwner, fourthOwner, lastOwner)
	before := q.deadline(fourthOwner)

	cancel()
	if a := quitter.ended(); !errors.Is(a.err, context.Canceled) {
		t.Fatalf("the one that gave up: got %v, want its context's error", a.err)
	}
	redisson.Await(t, "the one that gave up is gone from the queue", func() bool { return len(q.owners()) == 3 })
	q.want(secondOwner, fourthOwner, lastOwner)
	if alive := q.admin.Strings("ZRANGE", q.alive(), "0", "-1"); !slices.Equal(alive, []string{lastOwner}) {
		t.Errorf("alive: got %q, want %q alone", alive, lastOwner)
	}
	// A waiter of Holdfast takes nothing off the deadlines behind it: they are
	// those of Java, who would otherwise count as dead too early.
	if after := q.deadline(fourthOwner); !after.Equal(before) {
		t.Errorf("deadline behind the one that left: was %v, is %v", before, after)
	}
	holder.hand(second)
	fourth.waits()
	second.hand(fourth)
	fourth.hand(last)
	last.unlock()
}

func javaGivesUp(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	const limit = 5 * time.Second // for two more to join the queue
	q := queueOf(t, b)
	later := b.Locker(longTTL)
	holder := inGo(t, b, b.Locker(longTTL).FairMutex(b.Name)).has()
	began := time.Now()
	quitter := inJavaFor(t, b, b.Java, peer.Command{
		Op: "tryLock", Kind: "fair", Name: b.Name, Thread: "c30-b", Wait: limit.Milliseconds(),
	}).wait()
	q.joined(1)
	next := inGo(t, b, later.FairMutex(b.Name)).wait()
	nextOwner := q.joined(2)

	a := quitter.ended()
	if !errors.Is(a.err, holdfast.ErrBusy) {
		t.Fatalf("tryLock: got %v, want false", a.err)
	}
	between(t, "Java's tryLock gave up after", a.at.Sub(began), limit-50*time.Millisecond, limit+3*time.Second)
	q.want(nextOwner)
	holder.handAfter(func() {
		q.polled(nextOwner)
		if left := q.left(nextOwner); left < 2*time.Second {
			t.Errorf("deadline of the Go waiter: %v from now", left)
		}
	}, next)
	next.unlock()
}

// Trying neither passes the queue nor leaves anything in it. The head stands
// still, so that the lock is free for a while.
func noBarging(t *testing.T, b *redisson.Bench) {
	q := queueOf(t, b)
	java := jvm(t, b, nil)
	locker := b.Locker(longTTL)
	holder := inGo(t, b, locker.FairMutex(b.Name)).has()
	head := inJava(t, b, java, "fair", "c34-head").asleep() // a request that is under way would get the lock
	owner := q.joined(1)
	java.Pause()
	holder.unlock()

	for range 3 {
		if lock, err := locker.FairMutex(b.Name).TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("Go's TryLock: got %v, %v, want ErrBusy", lock, err)
		}
		if redisson.ThreadOf(t, b.Java, "c34-try").Do(peer.Command{Op: "tryLock", Kind: "fair", Name: b.Name}).Bool() {
			t.Error("Java's tryLock passed the queue")
		}
	}
	if q.admin.Int("EXISTS", b.Name) != 0 {
		t.Error("the lock is held")
	}
	redisson.Await(t, "the queue is as it was", func() bool { return slices.Equal(q.owners(), []string{owner}) })
	q.want(owner)
	java.Resume()
	head.granted()
	head.unlock()
}
