package permittest

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/unleased"
)

// RSemaphore, and PlainSemaphore.
func TestSemaphore(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "46a a permit released wakes the other side", Run: plainWakes},
		{Name: "47a six threads, six goroutines, three permits", Run: plainCrowd},
		{Name: "48a both count the same permits", Run: plainCounts},
	})
}

func plainWakes(t *testing.T, b *redisson.Bench) {
	for i, adapter := range rounds() {
		s := b.Through(adapter, redishold.Options{}).PlainSemaphore(b.Name)
		j := java(t, b, "semaphore", fmt.Sprintf("c46a-%d", i))
		if set, err := s.TrySet(t.Context(), 0); err != nil || set != (i == 0) {
			t.Fatalf("TrySet: got %v and %v", set, err)
		}
		waits := j.begin(t, j.command("acquire", 2))
		began := await.NewWatch(t)
		must(t, s.Release(t.Context(), 2))
		woken(t, i, "Java, released by "+adapter, began, waits.Wait().Received)

		redisson.Await(t, "Java listens no more", func() bool { return redisson.Listeners(b.Admin(), channel(b)) == 0 })
		gone := redisson.Later(t, "Acquire", func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Acquire(ctx, 2) })
		redisson.AwaitGo(t, b.Admin(), "permits_take", b.Name, adapter+" listens", func() bool { return redisson.Listeners(b.Admin(), channel(b)) == 1 })
		began = await.NewWatch(t)
		j.do("release", 2)
		_, at := gone.Wait()
		woken(t, i, adapter+", released by Java", began, at)
		j.wantNumber(t, "available", 0)
	}
	drop(t, b)
}

func plainCrowd(t *testing.T, b *redisson.Bench) {
	s := b.Through("goredis", redishold.Options{}).PlainSemaphore(b.Name)
	if set, err := s.TrySet(t.Context(), 3); err != nil || !set {
		t.Fatalf("TrySet: got %v and %v", set, err)
	}
	crowd(t, b, "semaphore", func(ctx context.Context) (func() error, error) {
		err := s.Acquire(ctx, 1)
		return func() error { return s.Release(ctx, 1) }, err
	})
	wantAvailable(t, s, java(t, b, "semaphore", "c47a"), 3)
	drop(t, b)
}

func plainCounts(t *testing.T, b *redisson.Bench) {
	ctx := t.Context()
	s := b.Backend(redishold.Options{}).PlainSemaphore(b.Name)
	j := java(t, b, "semaphore", "c48a")
	wantAvailable(t, s, j, 0) // nobody has set it
	set, err := s.TrySet(ctx, 5)
	wantYes(t, "TrySet", set, err, true)
	j.want(t, j.command("trySetPermits", 9), false)
	wantAvailable(t, s, j, 5)
	j.do("addPermits", 3)
	wantAvailable(t, s, j, 8)
	must(t, s.Add(ctx, -2))
	wantAvailable(t, s, j, 6)
	j.do("acquire", 2)
	wantAvailable(t, s, j, 4)
	taken, err := s.TryAcquire(ctx, 3)
	wantYes(t, "TryAcquire of 3", taken, err, true)
	j.want(t, j.command("tryAcquire", 2), false)
	taken, err = s.TryAcquire(ctx, 2)
	wantYes(t, "TryAcquire of 2", taken, err, false)
	if n, err := s.Drain(ctx); err != nil || n != 1 {
		t.Fatalf("Drain: got %d and %v, want 1", n, err)
	}
	wantAvailable(t, s, j, 0)
	set, err = s.TrySet(ctx, 9)
	wantYes(t, "TrySet where there are none left", set, err, false)
	j.want(t, j.command("trySetPermits", 9), false)
	j.do("release", 4)
	j.wantNumber(t, "drainPermits", 4)
	wantAvailable(t, s, j, 0)
	must(t, s.Add(ctx, -3))
	wantAvailable(t, s, j, -3)
	ttlOfSemaphore(t, b, s, j)
	drop(t, b)

	j.want(t, j.command("trySetPermits", 2), true)
	set, err = s.TrySet(ctx, 9)
	wantYes(t, "TrySet after Java's", set, err, false)
	wantAvailable(t, s, j, 2)
	drop(t, b)
}

// ttlOfSemaphore shows who keeps a TTL, which "trySetPermits" can give it.
func ttlOfSemaphore(t *testing.T, b *redisson.Bench, s *unleased.Semaphore, j object) {
	t.Helper()
	admin := b.Admin()
	admin.Int("PEXPIRE", b.Name, "60000")
	must(t, s.Add(t.Context(), 4))
	must(t, s.Release(t.Context(), 1))
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := admin.Int("PTTL", b.Name); left <= 0 {
		t.Errorf("Go dropped the TTL of the semaphore: %d", left)
	}
	j.do("addPermits", 1)
	if left := admin.Int("PTTL", b.Name); left != -1 {
		t.Fatalf("PTTL after Java's addPermits: got %d, want -1: what was observed is no longer so", left)
	}
	admin.Int("PEXPIRE", b.Name, "60000")
	j.do("drainPermits", 0)
	if left := admin.Int("PTTL", b.Name); left != -1 {
		t.Fatalf("PTTL after Java's drainPermits: got %d, want -1: what was observed is no longer so", left)
	}
	t.Attr("observed", "addPermits and drainPermits of RSemaphore drop the TTL that trySetPermits gave it; Holdfast's Add, Release and Drain keep it")
}

func wantAvailable(t *testing.T, s *unleased.Semaphore, j object, want int) {
	t.Helper()
	got, err := s.Available(t.Context())
	if err != nil || got != want {
		t.Fatalf("Available: got %d and %v, want %d", got, err, want)
	}
	j.wantNumber(t, "available", int64(want))
}

func wantYes(t *testing.T, what string, got bool, err error, want bool) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("%s: got %v and %v, want %v", what, got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
