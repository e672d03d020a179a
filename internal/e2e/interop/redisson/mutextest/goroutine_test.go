package mutextest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// slack is what a time may be off: two clocks that count in milliseconds.
const slack = 50 * time.Millisecond

// patience is how long a case waits for what has to happen.
const patience = 20 * time.Second

// held takes a lock, which ends with the test at the latest.
func held(t *testing.T, l *holdfast.Locker, name string, opts ...holdfast.Option) *holdfast.Lock {
	t.Helper()
	lock := must.Lock(t, l, name, opts...)
	t.Cleanup(func() { _ = lock.Unlock() }) // harmless where it is done
	return lock
}

// wantLost wants Unlock to say that the lock was lost.
func wantLost(t *testing.T, lock *holdfast.Lock) {
	t.Helper()
	if err := lock.Unlock(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

// wantBusy wants Go to be refused.
func wantBusy(t *testing.T, l *holdfast.Locker, name string) {
	t.Helper()
	_ = whoHolds(t, l, name)
}

// whoHolds wants Go to be refused, and returns the holder that the error names.
func whoHolds(t *testing.T, l *holdfast.Locker, name string) *holdfast.BusyError {
	t.Helper()
	lock, err := l.TryLock(t.Context(), name)
	if err == nil {
		_ = lock.Unlock()
		t.Fatalf("Go got %q, which Java holds", name)
	}
	var busy *holdfast.BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("TryLock %q: %v, want a BusyError", name, err)
	}
	return busy
}

// namesHolder is whoHolds for a holder that Go has to look up. Where the server or this process
// has no processor for a second, the limit of a look-up, the error has no name. Then namesHolder
// asks again.
func namesHolder(t *testing.T, l *holdfast.Locker, name string) *holdfast.BusyError {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		limit := time.Now().Add(time.Second)
		busy := whoHolds(t, l, name)
		named := !strings.HasPrefix(busy.Holder, "client ")
		if now := time.Now(); named || now.Before(limit) || now.After(end) {
			return busy
		}
	}
}

// waiting is a goroutine that waits for a lock.
type waiting struct {
	t     *testing.T
	taken chan taken
	lock  *holdfast.Lock // once it has got it
}

type taken struct {
	lock *holdfast.Lock
	err  error
	at   time.Time
}

// begin has a goroutine wait for a lock. It ends with the case.
func begin(t *testing.T, l *holdfast.Locker, name string, opts ...holdfast.Option) *waiting {
	t.Helper()
	return beginOn(t, l.Mutex(name), opts...)
}

// beginOn is begin for a lock of any kind.
func beginOn(t *testing.T, m *holdfast.Mutex, opts ...holdfast.Option) *waiting {
	t.Helper()
	w := &waiting{t: t, taken: make(chan taken, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lock, err := m.Lock(t.Context(), opts...)
		w.taken <- taken{lock, err, time.Now()}
	}()
	t.Cleanup(func() {
		<-done
		select {
		case left := <-w.taken:
			_ = left.lock.Unlock() // harmless also where there is none
		default:
		}
	})
	return w
}

// wantWaiting wants the goroutine to wait still.
func (w *waiting) wantWaiting() {
	w.t.Helper()
	select {
	case k := <-w.taken:
		_ = k.lock.Unlock()
		w.t.Fatalf("Go got the lock, or the error %v; want to wait", k.err)
	default:
	}
}

// got waits until the goroutine has the lock, and returns when that was.
func (w *waiting) got() time.Time {
	w.t.Helper()
	select {
	case k := <-w.taken:
		if k.err != nil {
			w.t.Fatal(k.err)
		}
		w.t.Cleanup(func() { _ = k.lock.Unlock() })
		w.lock = k.lock
		return k.at
	case <-time.After(patience):
		w.t.Fatal("Go did not get the lock")
		return time.Time{}
	}
}

// channel is where the unlock messages of a lock are published.
func channel(key string) string {
	for _, c := range key {
		if c == '{' {
			return "redisson_lock__channel:" + key
		}
	}
	return "redisson_lock__channel:{" + key + "}"
}

// listeners waits until so many clients listen for the unlock of key.
func listeners(t *testing.T, a redistest.Admin, key string, n int) {
	t.Helper()
	redisson.Await(t, strconv.Itoa(n)+" clients that listen for the unlock of "+key, func() bool {
		return redisson.Listeners(a.Bind(t), channel(key)) == int64(n)
	})
}

// asleep waits until goroutines sleep in what they wait for, so that n clients
// listen for the unlock of key.
func asleep(t *testing.T, a redistest.Admin, key string, n int) {
	t.Helper()
	redisson.AwaitGo(t, a, "acquire", key, strconv.Itoa(n)+" clients that listen for the unlock of "+key, func() bool {
		return redisson.Listeners(a.Bind(t), channel(key)) == int64(n)
	})
}

// wantTTL requires that the lock has a lease of that length, which began or was renewed
// later than since.
func wantTTL(t *testing.T, a redistest.Admin, key string, lease time.Duration, since time.Time) {
	t.Helper()
	got := milliseconds(a.Bind(t).Int("PTTL", key))
	if least := lease - time.Since(since) - slack; got < least || got > lease {
		t.Errorf("%q has %v left, want between %v and %v", key, got, least, lease)
	}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// wantPublished wants exactly these messages on a channel since it was listened
// to, and the count of those that an earlier call had seen. A last one of its own
// proves that there are no others on their way.
func wantPublished(t *testing.T, a redistest.Admin, l *redistest.Listener, key string, seen int, want ...string) int {
	t.Helper()
	const end = "7" // a number that no client knows, and so all pass over
	a.Bind(t).Int("PUBLISH", channel(key), end)
	want = append(want, end)
	var got []string
	for at := seen; len(got) == 0 || got[len(got)-1] != end; at++ {
		if payload := l.Wait(at + 1)[at].Payload; payload != takenMessage {
			got = append(got, payload)
		}
		seen = at + 1
	}
	if !slices.Equal(got, want) {
		t.Fatalf("published: %q, want %q", got, want)
	}
	return seen
}

// takenMessage is what a Go client that has waited says when it has the lock: Java passes
// over it.
const takenMessage = "2"

// eachAdapter runs f with a Locker over each of the adapters.
func eachAdapter(b *redisson.Bench, ttl time.Duration, f func(adapter string, l *holdfast.Locker)) {
	for _, adapter := range []string{"rueidis", "goredis"} {
		f(adapter, b.Over(b.Through(adapter, redishold.Options{}), ttl))
	}
}
