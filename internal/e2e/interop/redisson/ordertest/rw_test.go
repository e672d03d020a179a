package ordertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// longLease is that of Java threads which no timer is to wake.
const longLease = time.Minute

// The read-write lock.
func TestReadWrite(t *testing.T) {
	redisson.Run(t, redisson.Versions(), redistest.Standalone, []redisson.Case{
		{Name: "37 Java and Go read together, Go waits to write", Run: readTogether},
		{Name: "38 Go writes, Java and Go wait to read", Run: goWrites},
		{Name: "39 Java writes, Go waits to read", Run: javaWrites},
		{Name: "40 A Go read hold outlives a Java one", Run: javaReaderLeaves},
		{Name: "41 Java read holds outlive a Go one", Run: goReaderLeaves},
		{Name: "42a Java downgrades", Run: javaDowngrades},
		{Name: "42b Go downgrades", Run: goDowngrades},
		{Name: "43a A Java reader dies beside a Go reader", Run: javaReaderDies},
		{Name: "43b A Java reader dies beside a Java reader", Run: javaReaderLingers},
		{Name: "44a A Go reader dies beside a Java reader", Run: goReaderDies},
		{Name: "44b A Go reader dies beside a Java reader with a watchdog", Run: goReaderLingers},
		{Name: "45 A reader asks to write", Run: upgrade},
		{Name: "62a A Java reader stands still", Run: javaReaderPaused},
		{Name: "62b A Go reader stands still", Run: goReaderPaused},
	})
}

// readLock and writeLock are a thread's sides of the case's lock, with a lease
// that outlasts the case.
func readLock(t *testing.T, b *redisson.Bench, thread string) *worker {
	return leased(t, b, "read", thread, longLease)
}

func writeLock(t *testing.T, b *redisson.Bench, thread string) *worker {
	return leased(t, b, "write", thread, longLease)
}

func leased(t *testing.T, b *redisson.Bench, kind, thread string, lease time.Duration) *worker {
	return inJavaFor(t, b, b.Java, peer.Command{
		Op: "lock", Kind: kind, Name: b.Name, Thread: thread, Lease: lease.Milliseconds(),
	})
}

// refused fails the test if the side of the lock can be had.
func refused(t *testing.T, m *holdfast.Mutex) {
	t.Helper()
	if lock, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("TryLock: got %v, %v, want ErrBusy", lock, err)
	}
}

// refusedInJava is refused for a thread of the shared JVM.
func refusedInJava(t *testing.T, b *redisson.Bench, kind, thread string) {
	t.Helper()
	if redisson.ThreadOf(t, b.Java, thread).Do(peer.Command{Op: "tryLock", Kind: kind, Name: b.Name}).Bool() {
		t.Fatalf("Java's tryLock got the %s side", kind)
	}
}

// readTogether lets first Go and then Java be the last to leave.
func readTogether(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	w := watch(t, b)
	locker := b.Locker(longTTL)
	reader := inGo(t, b, locker.RWMutex(b.Name).Read)
	writer := inGo(t, b, b.Over(b.Through("goredis", redishold.Options{}), longTTL).RWMutex(b.Name).Write)
	java := readLock(t, b, "c37-a")
	for _, order := range [][2]*worker{{java, reader}, {reader, java}} {
		java.has()
		reader.has()
		refused(t, locker.RWMutex(b.Name).Write)
		refusedInJava(t, b, "write", "c37-b")
		w.since()
		writer.wait()
		w.listens(1)
		order[0].unlock()
		w.since()
		w.heard(`"HSCAN"`, 2) // the writer asked again, twice at least
		writer.waits()
		order[1].hand(writer)
		refused(t, locker.RWMutex(b.Name).Read)
		writer.unlock()
	}
}

func goWrites(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	w := watch(t, b)
	locker := b.Locker(longLease)
	for _, adapter := range dial.Adapters() {
		w.listens(0)
		writer := inGo(t, b, locker.RWMutex(b.Name).Write).has()
		var readers []*worker
		for i := range 5 {
			readers = append(readers, readLock(t, b, fmt.Sprintf("c38-%d", i)).asleep())
		}
		readers = append(readers, w.readers(b, adapter, 3, 1)...)
		writer.handAfter(w.polled, readers...)
		if fields := b.Admin().Int("HLEN", b.Name); fields != 1+int64(len(readers)) {
			t.Errorf("fields of the lock: got %d, want the mode and %d readers", fields, len(readers))
		}
		refused(t, locker.RWMutex(b.Name).Write)
		for _, r := range readers {
			r.unlock()
		}
	}
}

func javaWrites(t *testing.T, b *redisson.Bench) {
	w := watch(t, b)
	for _, adapter := range dial.Adapters() {
		w.listens(0)
		writer := writeLock(t, b, "c39-a").has()
		readers := w.readers(b, adapter, 3, 0)
		writer.handAfter(w.polled, readers...)
		for _, r := range readers {
			r.unlock()
		}
	}
}

// What keeps a reader's place when Java leaves is its timeout key: that of the
// acquire, that of the renewals, and one alone for a count of 2.
func javaReaderLeaves(t *testing.T, b *redisson.Bench) {
	const ttl = 2 * time.Second
	admin := b.Admin()
	ctx := holdfast.WithOwner(t.Context())
	read := b.Locker(ttl).RWMutex(b.Name).Read
	java := readLock(t, b, "c40-a").has()
	reader := inGoAs(ctx, t, b, read).has()
	leaves := func(count string) {
		t.Helper()
		between(t, "TTL beside Java's lease", pttl(admin, b.Name), longLease-10*time.Second, longLease)
		java.unlock()
		between(t, "TTL after Java left", pttl(admin, b.Name), ttl/4, ttl)
		wantReader(t, b, count)
	}
	keepsOut := func() {
		t.Helper()
		for end := time.Now().Add(ttl * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			refusedInJava(t, b, "write", "c40-b")
		}
	}
	leaves("1")
	java.has()
	again := inGoAs(ctx, t, b, read).has()
	keepsOut()
	leaves("2")
	keepsOut()
	again.unlock()
	refusedInJava(t, b, "write", "c40-b")
	reader.unlock()
	writeLock(t, b, "c40-b").has().unlock()
}

// wantReader wants a single reader with that count, and one timeout key.
func wantReader(t *testing.T, b *redisson.Bench, count string) {
	t.Helper()
	fields := b.Admin().Map("HGETALL", b.Name)
	delete(fields, "mode")
	for owner, got := range fields {
		keys := timeouts(b.Admin(), b.Name)
		if len(fields) == 1 && got == count && slices.Equal(keys, []string{timeout(b.Name, owner, 1)}) {
			return
		}
	}
	t.Fatalf("readers: got %v with timeout keys %q, want one with a count of %s, and one key", fields, timeouts(b.Admin(), b.Name), count)
}

// The lock lives as long as the longest lease of those who are left.
func goReaderLeaves(t *testing.T, b *redisson.Bench) {
	admin := b.Admin()
	short := leased(t, b, "read", "c41-a", 12*time.Second).has()
	long := leased(t, b, "read", "c41-b", 40*time.Second).has()
	reader := inGo(t, b, b.Locker(2*time.Minute).RWMutex(b.Name).Read).has()
	between(t, "TTL beside Go", pttl(admin, b.Name), 110*time.Second, 2*time.Minute)
	reader.unlock()
	// Go shortens the TTL after its release, in the background.
	await.Until(t, 10*time.Second, "the longest lease of those who are left", func() bool { return pttl(admin, b.Name) <= 40*time.Second })
	between(t, "TTL after Go left", pttl(admin, b.Name), 22*time.Second, 40*time.Second)
	refusedInJava(t, b, "write", "c41-c")
	long.unlock()
	between(t, "TTL after the longer lease", pttl(admin, b.Name), 4*time.Second, 12*time.Second)
	refused(t, b.Locker(longTTL).RWMutex(b.Name).Write)
	short.unlock()
}

// Redisson publishes nothing when a writer stays as a reader.
func javaDowngrades(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	w := watch(t, b)
	write, read := writeLock(t, b, "c42-a").has(), readLock(t, b, "c42-a").has()
	sleeper := readLock(t, b, "c42-b").asleep()
	readers := []*worker{
		inGo(t, b, b.Locker(longTTL).RWMutex(b.Name).Read).wait(),
		inGo(t, b, b.Over(b.Through("goredis", redishold.Options{}), longTTL).RWMutex(b.Name).Read).wait(),
	}
	w.listens(3)
	heard := b.Admin().Listen(w.channel())

	began := time.Now()
	write.unlock()
	for _, r := range readers {
		between(t, "a Go reader after the downgrade", r.granted().Sub(began), 0, 3*time.Second) // Java's call and a poll
	}
	if got := heard.Messages(); len(got) != 0 {
		t.Errorf("messages: %v", got)
	}
	for end := began.Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		sleeper.waits()
	}
	t.Attr("observed", "a Java writer that stays as a reader publishes nothing: a Java reader that could come in slept on, and Go readers came in with their next poll")
	for _, r := range readers {
		r.unlock()
	}
	read.hand(sleeper) // the last reader's 0
	sleeper.unlock()
}

func goDowngrades(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	ctx := holdfast.WithOwner(t.Context())
	rw := b.Locker(longLease).RWMutex(b.Name)
	write, read := inGoAs(ctx, t, b, rw.Write).has(), inGoAs(ctx, t, b, rw.Read).has()
	var readers []*worker
	for i := range 3 {
		readers = append(readers, readLock(t, b, fmt.Sprintf("c42-%d", i)).asleep())
	}
	write.hand(readers...)
	refusedInJava(t, b, "write", "c42-w")
	if err := read.lock.Err(); err != nil {
		t.Errorf("the read hold: %v", err)
	}
	read.unlock()
	for _, r := range readers {
		r.unlock()
	}
}

// A reader never waits for itself: Holdfast says so, Redisson lets it wait.
func upgrade(t *testing.T, b *redisson.Bench) {
	ctx := holdfast.WithOwner(t.Context())
	rw := b.Locker(longTTL).RWMutex(b.Name)
	reader := inGoAs(ctx, t, b, rw.Read).has()
	began := await.NewWatch(t)
	if lock, err := rw.Write.Lock(ctx); !errors.Is(err, holdfast.ErrDeadlock) {
		t.Fatalf("a reader's Write.Lock: got %v, %v, want ErrDeadlock", lock, err)
	}
	between(t, "the answer took", time.Since(began.Began), 0, redisson.WakeLimit+began.Late())
	if err := reader.lock.Err(); err != nil {
		t.Errorf("the read hold: %v", err)
	}
	reader.unlock()

	java := readLock(t, b, "c45-a").has()
	const wait = time.Second
	began = await.NewWatch(t)
	if redisson.ThreadOf(t, b.Java, "c45-a").Do(peer.Command{Op: "tryLock", Kind: "write", Name: b.Name, Wait: wait.Milliseconds()}).Bool() {
		t.Fatal("a Java reader got the write side")
	}
	between(t, "Java's tryLock took", time.Since(began.Began), wait-50*time.Millisecond, wait+time.Second+began.Late())
	t.Attr("observed", "a Java thread that reads and asks to write waits for itself until its limit, without one forever")
	java.unlock()
}
