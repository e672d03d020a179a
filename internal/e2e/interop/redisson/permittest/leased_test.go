package permittest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// RPermitExpirableSemaphore, and Semaphore.
func TestPermits(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "46b a permit released wakes the other side", Run: leasedWakes},
		{Name: "47b six threads, six goroutines, three permits", Run: leasedCrowd},
		{Name: "48b both count the same permits", Run: leasedCounts},
		{Name: "49a a permit ends, the other side has it", Run: permitEnds},
		{Name: "49b each side releases the other's permit", Run: strangersRelease},
		{Name: "50 a permit without an end", Run: neverEnds},
		{Name: "64 thousands of permits have ended", Run: manyEnded},
	})
}

func leasedWakes(t *testing.T, b *redisson.Bench) {
	for i, adapter := range rounds() {
		s := b.Over(b.Through(adapter, redishold.Options{}), 10*time.Second).Semaphore(b.Name, 1)
		j := java(t, b, "permits", fmt.Sprintf("c46b-%d", i))
		lock := acquire(t, s)
		waits := j.begin(t, peer.Command{Op: "acquire", Kind: "permits", Name: b.Name, Lease: 60000})
		began := await.NewWatch(t)
		must(t, lock.Unlock())
		reply := waits.Wait()
		woken(t, i, "Java, released by "+adapter, began, reply.Received)

		redisson.Await(t, "Java listens no more", func() bool { return redisson.Listeners(b.Admin(), channel(b)) == 0 })
		next := redisson.Later(t, "Acquire", func(ctx context.Context) (*holdfast.Lock, error) { return s.Acquire(ctx) })
		redisson.AwaitGo(t, b.Admin(), "semaphore_acquire", b.Name, adapter+" listens", func() bool { return redisson.Listeners(b.Admin(), channel(b)) == 1 })
		began = await.NewWatch(t)
		j.Do(j.permit("release", reply.Text(), 0))
		lock, at := next.Wait()
		woken(t, i, adapter+", released by Java", began, at)
		must(t, lock.Unlock())
	}
	drop(t, b)
}

func leasedCrowd(t *testing.T, b *redisson.Bench) {
	s := b.Over(b.Through("goredis", redishold.Options{}), 10*time.Second).Semaphore(b.Name, permits)
	crowd(t, b, "permits", func(ctx context.Context) (func() error, error) {
		lock, err := s.Acquire(ctx)
		return lock.Unlock, err
	})
	wantPermits(t, s, java(t, b, "permits", "c47b"), permits, permits)
	drop(t, b)
}

func leasedCounts(t *testing.T, b *redisson.Bench) {
	l := b.Locker(10 * time.Second)
	s, j := l.Semaphore(b.Name, 2), java(t, b, "permits", "c48b")
	wantPermits(t, s, j, 0, 0) // nobody has set it
	j.want(t, j.command("trySetPermits", 5), true)
	wantPermits(t, s, j, 5, 5)
	j.do("addPermits", 2)
	wantPermits(t, s, j, 7, 7)
	must(t, s.Resize(t.Context(), 4))
	wantPermits(t, s, j, 4, 4)
	lock := acquire(t, s)
	wantPermits(t, s, j, 4, 3)
	id := j.Do(j.permit("tryAcquire", "", time.Minute)).Text()
	wantPermits(t, s, j, 4, 2)
	must(t, s.Resize(t.Context(), 1)) // below what is held
	wantPermits(t, s, j, 1, -1)
	wantNone(t, s, j)

	waits := j.begin(t, peer.Command{Op: "acquire", Kind: "permits", Name: b.Name, Lease: 60000})
	began := await.NewWatch(t)
	must(t, s.Resize(t.Context(), 3))
	reply := waits.Wait()
	redisson.Woken(t, "Java, by a Resize", began, reply.Received)
	wantPermits(t, s, j, 3, 0)
	for _, held := range []string{id, reply.Text()} {
		j.Do(j.permit("release", held, 0))
	}
	must(t, lock.Unlock())
	wantPermits(t, s, j, 3, 3)
	drop(t, b)

	lock = acquire(t, s) // whose semaphore has 2 where the name is new
	j.want(t, j.command("trySetPermits", 9), false)
	wantPermits(t, s, j, 2, 1)
	must(t, lock.Unlock())
	drop(t, b)
}

func permitEnds(t *testing.T, b *redisson.Bench) {
	const lease = 2 * time.Second
	l := b.Locker(10 * time.Second)
	s, j := l.Semaphore(b.Name, 1), java(t, b, "permits", "c49a")
	j.do("trySetPermits", 1)
	before := await.NewWatch(t)
	id := j.Do(j.permit("acquire", "", lease)).Text()
	after := time.Now()
	lock := acquire(t, s)
	ended(t, "Go behind Java's permit", lease, before, after, time.Now())
	j.want(t, j.permit("tryRelease", id, 0), false)
	must(t, lock.Unlock())

	before = await.NewWatch(t)
	lock, err := s.Acquire(t.Context(), holdfast.FixedLease(lease))
	must(t, err)
	after = time.Now()
	reply := j.Do(j.permit("acquire", "", time.Minute))
	ended(t, "Java behind Go's permit", lease, before, after, reply.Received)
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock of a permit whose lease has ended: got %v, want ErrLost", err)
	}
	j.Do(j.permit("release", reply.Text(), 0))
	wantPermits(t, s, j, 1, 1)
	drop(t, b)
}

// ended wants a waiter to have the permit when the lease ended, not before.
func ended(t *testing.T, who string, lease time.Duration, before *await.Watch, after, at time.Time) {
	t.Helper()
	const grain = 2 * time.Millisecond // ends are kept in whole ones
	t.Logf("%s: %v after the lease began", who, at.Sub(after))
	if at.Sub(before.Began) < lease-grain || at.Sub(after) > lease+redisson.WakeLimit+before.Late() {
		t.Errorf("%s: had it between %v and %v after the lease began, want %v, and %v more at most; the machine stood still for %v",
			who, at.Sub(after), at.Sub(before.Began), lease, redisson.WakeLimit, before.Late())
	}
}

func strangersRelease(t *testing.T, b *redisson.Bench) {
	const ttl = 3 * time.Second
	store := b.Backend(redishold.Options{})
	l := b.Over(store, ttl)
	s, j := l.Semaphore(b.Name, 1), java(t, b, "permits", "c49b")
	j.do("trySetPermits", 1)
	id := j.Do(j.permit("acquire", "", time.Minute)).Text()
	if !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(id) {
		t.Fatalf("id of Java's permit: got %q, want 32 hex digits", id)
	}
	holder := wantHolder(t, b, store, id, id)
	must(t, store.ForceUnlock(t.Context(), b.Name, holder, "test"))
	j.want(t, j.permit("tryRelease", id, 0), false)
	if r := j.Try(j.permit("release", id, 0)); r.Err() == nil {
		t.Error("Java released a permit that had been broken")
	} else {
		t.Log(r.Err())
	}
	wantPermits(t, s, j, 1, 1)

	lock := acquire(t, s)
	goes := hex.EncodeToString([]byte(b.Admin().Strings("ZRANGE", permitsOut(b), "0", "-1")[0]))
	number, err := strconv.ParseUint(goes[20:], 16, 64)
	must(t, err)
	wantHolder(t, b, store, goes, fmt.Sprintf("%s:%d", b.Admin().String("GET", "holdfast:client:"+goes[:20]), number))
	began := await.NewWatch(t)
	j.Do(j.permit("release", goes, 0))
	select {
	case <-lock.Context(t.Context()).Done():
		if took := began.Took(); took > ttl/3+redisson.WakeLimit {
			t.Errorf("Go learned of the loss after %v, want %v and a call at most", took, ttl/3)
		}
	case <-time.After(ttl):
		t.Error("Go was not told that Java had given its permit back")
	}
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: got %v, want ErrLost", err)
	}
	wantPermits(t, s, j, 1, 1)
	drop(t, b)
}

// wantHolder wants the one permit to be known by that id: 16 bytes in Redis, their
// hex in Java. Get returns the owner, which of a permit of Java's is the same hex.
func wantHolder(t *testing.T, b *redisson.Bench, store *redishold.Backend, id, owner string) admin.Holder {
	t.Helper()
	if raw := b.Admin().Strings("ZRANGE", permitsOut(b), "0", "-1"); len(raw) != 1 || len(raw[0]) != 16 || hex.EncodeToString([]byte(raw[0])) != id {
		t.Fatalf("ids in Redis: got %q, want the 16 bytes of %s", raw, id)
	}
	holders, err := dial.Holders(t.Context(), store, b.Name)
	if err != nil || len(holders) != 1 || holders[0].Owner != owner {
		t.Fatalf("Get: got %+v and %v, want one permit of %s", holders, err, owner)
	}
	return holders[0]
}

func neverEnds(t *testing.T, b *redisson.Bench) {
	const never = "922337203685477"
	calls := &counting{asked: make(chan time.Time, 100)}
	l := b.Over(redishold.New(calls.over(t, b), nil), 4500*time.Millisecond) // renewed while it is watched
	s, j := l.Semaphore(b.Name, 1), java(t, b, "permits", "c50")
	j.do("trySetPermits", 2)
	id := j.do("acquire", 1).Text()
	lock := acquire(t, s)
	wantScore := func(when string) {
		t.Helper()
		raw, _ := hex.DecodeString(id)
		if got := b.Admin().String("ZSCORE", permitsOut(b), string(raw)); got != never {
			t.Errorf("score of the permit without an end, %s: got %q, want %q", when, got, never)
		}
	}
	wantScore("beside one of Go")
	next := redisson.Later(t, "Acquire", func(ctx context.Context) (*holdfast.Lock, error) {
		return s.Acquire(ctx, holdfast.FixedLease(time.Minute))
	})
	redisson.Await(t, "Go listens", func() bool { return redisson.Listeners(b.Admin(), channel(b)) == 1 })
	calls.wantOneEachSecond(t)
	if !next.Waits() {
		t.Error("Go got a permit beside the one without an end")
	}
	wantScore("after renewals")
	began := await.NewWatch(t)
	j.Do(j.permit("release", id, 0))
	second, at := next.Wait()
	redisson.Woken(t, "Go, by Java's permit without an end", began, at)
	must(t, lock.Unlock())
	must(t, second.Unlock())
	wantPermits(t, s, j, 2, 2)
	drop(t, b)
}

// counting counts the attempts to acquire a permit.
type counting struct {
	redishold.Conn
	asked chan time.Time
}

// wantOneEachSecond wants the next three attempts of a waiter to come about a second
// after each other: it sleeps for that long at most, and not for less without a message.
func (c *counting) wantOneEachSecond(t *testing.T) {
	t.Helper()
	for len(c.asked) > 0 {
		<-c.asked
	}
	last := <-c.asked
	for range 3 {
		at := <-c.asked
		if pause := at.Sub(last); pause < 600*time.Millisecond || pause > 1500*time.Millisecond {
			t.Errorf("Go asked again after %v, want about a second", pause)
		}
		last = at
	}
}

// over returns c over a connection of the case's own.
func (c *counting) over(t *testing.T, b *redisson.Bench) redishold.Conn {
	t.Helper()
	conn, shut, err := dial.Open(t.Context(), dial.To("goredis", b.Deployment))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	c.Conn = conn
	return c
}

// Do says.
func (c *counting) Do(ctx context.Context, calls ...redishold.Call) []redishold.Result {
	for _, call := range calls {
		if call.Script.Name() == "semaphore_acquire" {
			c.asked <- time.Now()
		}
	}
	return c.Conn.Do(ctx, calls...)
}

// manyEnded plants more permits whose leases have ended than a script of Redisson
// can name in one command.
func manyEnded(t *testing.T, b *redisson.Bench) {
	const many, chunk = 8500, 1000
	admin := b.Admin()
	admin.String("SET", b.Name, "0")
	for planted := 0; planted < many; planted += min(chunk, many-planted) {
		add := []string{"ZADD", permitsOut(b)}
		for i := planted; i < min(planted+chunk, many); i++ {
			add = append(add, strconv.FormatInt(time.Now().UnixMilli()-int64(i)-1, 10), fmt.Sprintf("%016d", i))
		}
		admin.Int(add...)
	}
	j := java(t, b, "permits", "c64")
	if r := j.Try(j.command("available", 0)); r.Err() == nil || !strings.Contains(r.Error, "too many results to unpack") {
		t.Fatalf("availablePermits: got %s and %v: what was observed is no longer so", r.Value, r.Err())
	}
	t.Attr("observed", fmt.Sprintf("availablePermits fails with \"too many results to unpack\" where %d permits have ended, until Holdfast or single acquires have taken some back", many))

	s := b.Locker(10*time.Second).Semaphore(b.Name, many)
	if total, free, err := s.Permits(t.Context()); err != nil || total != many || free != many {
		t.Fatalf("Permits: got %d, %d and %v, want %d of each", total, free, err, many)
	}
	lock := acquire(t, s)
	j.wantNumber(t, "available", many-1)
	must(t, lock.Unlock())
	wantPermits(t, s, j, many, many)
	drop(t, b)
}

// permit returns the command for a thread about one permit. A lease of 0 is none.
func (j object) permit(op, id string, lease time.Duration) peer.Command {
	return peer.Command{Op: op, Kind: j.kind, Name: j.name, Value: id, Lease: lease.Milliseconds()}
}

func acquire(t *testing.T, s *holdfast.Semaphore) *holdfast.Lock {
	t.Helper()
	lock, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// wantPermits wants both sides to know of as many.
func wantPermits(t *testing.T, s *holdfast.Semaphore, j object, wantTotal, wantFree int) {
	t.Helper()
	total, free, err := s.Permits(t.Context())
	if err != nil || total != wantTotal || free != wantFree {
		t.Fatalf("Permits: got %d, %d and %v, want %d and %d", total, free, err, wantTotal, wantFree)
	}
	j.wantNumber(t, "available", int64(wantFree))
}

// wantNone wants neither side to get a permit.
func wantNone(t *testing.T, s *holdfast.Semaphore, j object) {
	t.Helper()
	if _, err := s.TryAcquire(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryAcquire: got %v, want ErrBusy", err)
	}
	if id := j.Do(j.permit("tryAcquire", "", time.Minute)).Text(); id != "" {
		t.Fatalf("Java, tryAcquire: got the permit %s", id)
	}
}

func channel(b *redisson.Bench) string { return "redisson_sc:{" + b.Name + "}" }

// permitsOut is the key of the permits that are held.
func permitsOut(b *redisson.Bench) string { return "{" + b.Name + "}:timeout" }
