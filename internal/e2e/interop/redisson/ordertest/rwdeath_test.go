package ordertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// timeout returns the key of a reader's hold number i.
func timeout(name, owner string, i int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", name, owner, i)
}

// timeouts returns the timeout keys of all readers.
func timeouts(admin redistest.Admin, name string) []string {
	return slices.DeleteFunc(admin.Keys(), func(key string) bool {
		return !strings.HasPrefix(key, "{"+name+"}:") || !strings.Contains(key, ":rwlock_timeout:")
	})
}

// pttl returns what a key has left; less than 0 if it does not end, or is not there.
func pttl(admin redistest.Admin, key string) time.Duration {
	return time.Duration(admin.Int("PTTL", key)) * time.Millisecond
}

// ended waits until a timeout key is gone.
func ended(t *testing.T, admin redistest.Admin, key string) {
	t.Helper()
	redisson.Await(t, key+" ends", func() bool { return admin.Int("EXISTS", key) == 0 })
}

// reads makes a process take the read side, and returns its timeout key and its
// field.
func reads(t *testing.T, b *redisson.Bench, p *peer.Process, thread string) (key, field string) {
	t.Helper()
	admin := b.Admin()
	before := timeouts(admin, b.Name)
	p.Do(peer.Command{Op: "lock", Kind: "read", Name: b.Name, Thread: thread})
	for _, key := range timeouts(admin, b.Name) {
		if !slices.Contains(before, key) {
			field = strings.TrimPrefix(strings.TrimSuffix(key, ":rwlock_timeout:1"), "{"+b.Name+"}:")
			return key, field
		}
	}
	t.Fatalf("no new timeout key beside %q", before)
	return "", ""
}

// shortTTL is the lease of those who are to be found dead soon.
const shortTTL = 3 * time.Second

func shortWatchdog(s *redisson.Settings) { s.LockWatchdogTimeout = shortTTL.Milliseconds() }

// A reader that died leaves its field behind for as long as others read, and no
// longer.
func javaReaderDies(t *testing.T, b *redisson.Bench) {
	warm(t, b, b.Java)
	admin := b.Admin()
	dying := jvm(t, b, shortWatchdog)
	reader := inGo(t, b, b.Locker(longTTL).RWMutex(b.Name).Read).has()
	key, field := reads(t, b, dying, "c43-a")
	writer := writeLock(t, b, "c43-b").asleep()

	dying.Kill()
	ended(t, admin, key)
	if admin.Int("HEXISTS", b.Name, field) != 1 {
		t.Error("the dead reader's field is gone before anybody left")
	}
	t.Attr("observed", "the field of a dead Java reader stays in the lock for as long as others read")
	writer.waits()
	reader.hand(writer)
	writer.unlock()

	// A writer of Holdfast looks for dead fields when it is refused.
	second := jvm(t, b, shortWatchdog)
	reader.has()
	key, field = reads(t, b, second, "c43-c")
	second.Kill()
	ended(t, admin, key)
	refused(t, b.Locker(longTTL).RWMutex(b.Name).Write)
	if admin.Int("HEXISTS", b.Name, field) != 0 {
		t.Error("the dead reader's field is still there after a Go writer looked")
	}
	reader.unlock()
}

// Up to 4.3 a Java reader's watchdog extends the leases of all readers, of the
// dead as well.

func javaReaderLingers(t *testing.T, b *redisson.Bench) {
	lingers(t, b, jvm(t, b, shortWatchdog))
}

func goReaderLingers(t *testing.T, b *redisson.Bench) {
	lingers(t, b, b.GoProcess("rueidis", shortTTL))
}

// lingers makes a process die that reads beside a JVM.
func lingers(t *testing.T, b *redisson.Bench, dying *peer.Process) {
	admin := b.Admin()
	living := jvm(t, b, shortWatchdog)
	deadKey, _ := reads(t, b, dying, "c43-dead")
	liveKey, _ := reads(t, b, living, "c43-live")

	dying.Kill()
	killed := time.Now()
	for time.Since(killed) < 2*shortTTL && admin.Int("EXISTS", deadKey) == 1 {
		if admin.Int("EXISTS", liveKey) != 1 {
			t.Fatal("the living reader's timeout key is gone")
		}
		time.Sleep(20 * time.Millisecond)
	}
	lingers := admin.Int("EXISTS", deadKey) == 1
	if want := b.Version != redisson.Newest; lingers != want {
		t.Fatalf("the dead reader's timeout key after %v: there is %v, want %v", time.Since(killed), lingers, want)
	}
	if lingers {
		t.Attr("observed", fmt.Sprintf("the watchdog of a Java reader also renewed the lease of a dead one: it was there %v after a death with a lease of %v", time.Since(killed).Round(time.Second), shortTTL))
	}
	w := watch(t, b)
	writer := inGo(t, b, b.Locker(longTTL).RWMutex(b.Name).Write).wait()
	w.listens(1)
	w.heard(`"HSCAN"`, 2) // it asked, and once more when it listened
	writer.waits()
	began := time.Now()
	living.Do(peer.Command{Op: "unlock", Kind: "read", Name: b.Name, Thread: "c43-live"})
	between(t, "a Go writer after the last live reader", writer.granted().Sub(began), 0, shortTTL+time.Second)
	writer.unlock()
}

// A Go reader's renewals and its death leave a Java reader its longer lease.
func goReaderDies(t *testing.T, b *redisson.Bench) {
	admin := b.Admin()
	dying := b.GoProcess("rueidis", shortTTL)
	java := readLock(t, b, "c44-a").has()
	key, field := reads(t, b, dying, "")
	began, renewals := time.Now(), 0
	for left := pttl(admin, key); renewals < 3; time.Sleep(5 * time.Millisecond) {
		now := pttl(admin, key)
		if now > left {
			renewals++
		}
		left = now
		if time.Since(began) > waitLimit {
			t.Fatalf("%d renewals in %v", renewals, waitLimit)
		}
	}
	dying.Kill()
	ended(t, admin, key)
	if admin.Int("HEXISTS", b.Name, field) != 1 {
		t.Error("the dead reader's field is gone before anybody looked")
	}
	between(t, "TTL after the Go reader died", pttl(admin, b.Name), longLease-time.Since(began)-5*time.Second, longLease)
	refusedInJava(t, b, "write", "c44-b")
	refused(t, b.Locker(longTTL).RWMutex(b.Name).Write)
	if admin.Int("HEXISTS", b.Name, field) != 0 {
		t.Error("the dead reader's field is still there after a Go writer looked")
	}
	java.unlock()
	writeLock(t, b, "c44-b").has().unlock()
}

// A Java reader that stood still for longer than its lease has a field and no
// lease. Its client thinks that it reads, and a writer comes in.
func javaReaderPaused(t *testing.T, b *redisson.Bench) {
	admin := b.Admin()
	java := jvm(t, b, shortWatchdog)
	locker := b.Locker(longTTL)
	reader := inGo(t, b, locker.RWMutex(b.Name).Read).has()
	key, _ := reads(t, b, java, "c62-a")
	held := peer.Command{Op: "isHeld", Kind: "read", Name: b.Name, Thread: "c62-a"}

	java.Pause()
	ended(t, admin, key)
	java.Resume()
	for began := time.Now(); time.Since(began) < shortTTL*3/4; time.Sleep(20 * time.Millisecond) {
		if admin.Int("EXISTS", key) != 0 { // two rounds of the watchdog, at a third each, and more
			t.Fatal("Redisson made the timeout key again")
		}
	}
	if !java.Do(held).Bool() {
		t.Fatal("the Java reader knows that it lost its lease")
	}
	reader.unlock()
	writer := inGo(t, b, locker.RWMutex(b.Name).Write).has()
	unlock := held
	unlock.Op = "unlock"
	if r := java.Try(unlock); r.Class != redisson.NotHeld {
		t.Errorf("unlock of the Java reader: got %v, want %s", r.Err(), redisson.NotHeld)
	}
	t.Attr("observed", "a Java reader that stood still for longer than its lease, beside a Go reader, said that it holds the lock; when Go left, a writer came in, and Java learned it from unlock")
	if err := writer.lock.Err(); err != nil {
		t.Errorf("the writer: %v", err)
	}
	writer.unlock()
}

// A Go reader that stood still for longer than its lease knows.
func goReaderPaused(t *testing.T, b *redisson.Bench) {
	admin := b.Admin()
	stopped := b.GoProcess("rueidis", shortTTL)
	java := readLock(t, b, "c62-b").has()
	key, _ := reads(t, b, stopped, "")
	lost := peer.Command{Op: "over"}
	told := stopped.Go(lost)

	stopped.Pause()
	ended(t, admin, key)
	stopped.Resume()
	if r := stopped.Await(lost, told, waitLimit); r.Class != "ErrLost" {
		t.Errorf("after the pause: got %v, want ErrLost", r.Err())
	}
	if r := stopped.Try(peer.Command{Op: "unlock"}); r.Class != "ErrLost" {
		t.Errorf("Unlock: got %v, want ErrLost", r.Err())
	}
	refusedInJava(t, b, "write", "c62-c")
	java.unlock()
	writeLock(t, b, "c62-c").has().unlock()
}
