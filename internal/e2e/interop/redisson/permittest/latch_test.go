package permittest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// RCountDownLatch, and CountDownLatch.
func TestLatch(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "51 each side waits while the other counts", Run: latchOpens},
	})
}

// A latch in a cluster.
func TestLatchInCluster(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Cluster, []redisson.Case{
		{Name: "52 a name with braces", Run: bracedLatch},
	})
}

func latchOpens(t *testing.T, b *redisson.Bench) {
	for i, adapter := range rounds() {
		c := b.Over(b.Through(adapter, redishold.Options{}), 10*time.Second).CountDownLatch(b.Name)
		j := java(t, b, "latch", fmt.Sprintf("c51-%d", i))
		other := java(t, b, "latch", fmt.Sprintf("c51-%d-other", i))
		set, err := c.TrySet(t.Context(), 3)
		wantYes(t, "Set", set, err, true)
		j.want(t, j.command("trySetCount", 9), false)
		waits := j.begin(t, peer.Command{Op: "await", Kind: "latch", Name: b.Name, Wait: 20000})
		wantCount(t, c, other, 3)
		must(t, c.CountDown(t.Context()))
		other.do("countDown", 0)
		wantCount(t, c, other, 1)
		began := await.NewWatch(t)
		must(t, c.CountDown(t.Context()))
		reply := waits.Wait()
		if !reply.Bool() {
			t.Fatal("Java waited in vain")
		}
		woken(t, i, "Java, by "+adapter, began, reply.Received)
		wantCount(t, c, other, 0)
		must(t, c.CountDown(t.Context())) // it stays open
		other.do("countDown", 0)

		j.want(t, j.command("trySetCount", 2), true) // closed again
		set, err = c.TrySet(t.Context(), 9)
		wantYes(t, "Set of a latch that counts", set, err, false)
		redisson.Await(t, "Java listens no more", func() bool { return redisson.Listeners(b.Admin(), latchChannel(b)) == 0 })
		opens := redisson.Later(t, "Wait", func(ctx context.Context) (struct{}, error) { return struct{}{}, c.Wait(ctx) })
		redisson.AwaitGo(t, b.Admin(), "latch_count", b.Name, adapter+" listens", func() bool { return redisson.Listeners(b.Admin(), latchChannel(b)) == 1 })
		j.do("countDown", 0)
		wantCount(t, c, j, 1)
		if !opens.Waits() {
			t.Fatal("Go went on at 1")
		}
		began = await.NewWatch(t)
		j.do("countDown", 0)
		_, at := opens.Wait()
		woken(t, i, adapter+", by Java", began, at)
		wantCount(t, c, j, 0)
	}
}

func latchChannel(b *redisson.Bench) string {
	return "redisson_countdownlatch__channel__{" + b.Name + "}"
}

// wantCount wants both sides to see that count, and an open latch to have no key.
func wantCount(t *testing.T, c *holdfast.CountDownLatch, j object, want int64) {
	t.Helper()
	if got, err := c.Count(t.Context()); err != nil || got != want {
		t.Fatalf("Count: got %d and %v, want %d", got, err, want)
	}
	j.wantNumber(t, "count", want)
}

func bracedLatch(t *testing.T, b *redisson.Bench) {
	l := b.Locker(10 * time.Second)
	j := java(t, b, "latch", "c52")
	b.Name = "{case52:slot}:latch"
	braced := l.CountDownLatch(b.Name)
	_, setErr := braced.TrySet(t.Context(), 1)
	_, countErr := braced.Count(t.Context())
	for what, err := range map[string]error{"Set": setErr, "Done": braced.CountDown(t.Context()), "Count": countErr, "Wait": braced.Wait(t.Context())} {
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "braces") {
			t.Errorf("%s of a latch with braces in its name: got %v, want ErrRefused, and why", what, err)
		}
	}
	j.name = b.Name
	for _, op := range []string{"trySetCount", "countDown"} {
		r := j.Try(j.command(op, 1))
		t.Logf("Java, %s: %v", op, r.Err())
		if !strings.Contains(r.Error, "CROSSSLOT") {
			t.Errorf("Java, %s of a latch with braces in its name: got %v: what was observed is no longer so", op, r.Err())
		}
	}
	t.Attr("observed", "RCountDownLatch fails with the server's CROSSSLOT in a cluster where its name has braces; Holdfast says so before it asks")

	b.Name = "case52:latch" // without braces it works
	j.name = b.Name
	c := l.CountDownLatch(b.Name)
	set, err := c.TrySet(t.Context(), 1)
	wantYes(t, "Set", set, err, true)
	waits := j.begin(t, peer.Command{Op: "await", Kind: "latch", Name: b.Name, Wait: 20000})
	began := await.NewWatch(t)
	must(t, c.CountDown(t.Context()))
	redisson.Woken(t, "Java in a cluster", began, waits.Wait().Received)
}
