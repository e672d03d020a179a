package mutextest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/redisson"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

func latchKeys(t *testing.T, b *redisson.Bench) {
	const unlocks = 1000
	admin := b.Admin().Bind(t)
	l := b.Locker(10 * time.Second)
	made := notified(t, admin, "redisson_unlock_latch:{"+b.Name+"}:*")
	j := java(t, b, "c21")
	c := j.command("stress", 0, 0)
	c.N, c.Value = unlocks, "case21:counter"
	answer := j.shared().Begin(c)
	most := 0
	for answer.Waits() {
		must.Unlock(t, held(t, l, b.Name))
		most = max(most, latches(t, b))
	}
	if inside := answer.Wait().Int(); inside != 1 {
		t.Errorf("Java: %d at most held the lock, want 1", inside)
	}
	left := latches(t, b)
	must.Unlock(t, held(t, l, b.Name))
	if got := admin.String("GET", "case21:counter"); got != strconv.Itoa(unlocks) {
		t.Errorf("the counter is %s, want %d", got, unlocks)
	}
	if now := latches(t, b); now > left {
		t.Errorf("%d latch keys, %d before Go's lock: Go leaves none", now, left)
	}
	want := unlocks // one for each
	if b.Version == redisson.Classic {
		want = 0
	}
	admin.Int("PUBLISH", "__keyspace@0__:redisson_unlock_latch:{"+b.Name+"}:end", "end") // after all others
	if n := len(made.Wait(want+1)) - 1; n != want {
		t.Errorf("%d latch keys were made, want %d in this version", n, want)
	}
	t.Attr("observed", strconv.Itoa(left)+" latch keys are left right after "+strconv.Itoa(unlocks)+
		" unlocks, "+strconv.Itoa(most)+" at most were seen meanwhile, each for no longer than 20s")
}

// notified learns of each string that is set at a key of that pattern.
func notified(t *testing.T, a redistest.Admin, pattern string) *redistest.Listener {
	t.Helper()
	a.String("CONFIG", "SET", "notify-keyspace-events", "K$")
	t.Cleanup(func() { a.String("CONFIG", "SET", "notify-keyspace-events", "") })
	return a.Listen("__keyspace@0__:" + pattern)
}

// latches counts the latch keys of the case's lock, and wants each to end within
// 20 s.
func latches(t *testing.T, b *redisson.Bench) int {
	t.Helper()
	admin := b.Admin().Bind(t)
	n := 0
	for _, key := range admin.Keys() {
		if !strings.HasPrefix(key, "redisson_unlock_latch:{"+b.Name+"}:") {
			continue
		}
		switch left := milliseconds(admin.Int("PTTL", key)); {
		case left == -2*time.Millisecond: // gone meanwhile
		case left < 0 || left > 20*time.Second:
			t.Errorf("the latch key %q has %v left, want 20s at most", key, left)
		default:
			n++
		}
	}
	return n
}

// onLock matches the scripts that are for the lock name.
func onLock(name string) faultproxy.Match {
	return func(cmd []string) bool {
		return len(cmd) > 3 && strings.HasPrefix(strings.ToUpper(cmd[0]), "EVAL") && cmd[3] == name
	}
}

func goLosesReplies(t *testing.T, b *redisson.Bench) {
	wakeUps := newWakeUps(t, b)
	for _, adapter := range dial.Adapters() {
		goLosesReply(t, b, adapter, wakeUps)
	}
	wakeUps.report()
}

func goLosesReply(t *testing.T, b *redisson.Bench, adapter string, wakeUps *wakeUps) {
	t.Helper()
	admin := b.Admin().Bind(t)
	proxy := faultproxy.Start(t, admin.Addr())
	target := dial.To(adapter, b.Deployment)
	target.Routes = map[string]string{admin.Addr(): proxy.Addr()}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, shut, err := dial.Open(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	l := b.Over(redishold.New(conn, nil), 10*time.Second)
	must.Unlock(t, held(t, l, b.Name+":warm")) // it asks what the server is

	rule := proxy.On(onLock(b.Name), faultproxy.CutAfterExecution())
	lock := held(t, l, b.Name)
	rule.Wait(t, 1)
	wantCount(t, b, "1")
	j := java(t, b, "c22-"+adapter)
	j.wantBusy()
	q := j.begin("lock", 0, 0)
	q.asleep()
	wakeUps.measure("Java", func() { must.Unlock(t, lock) }, q.got)
	j.unlock()
}

// javaLosesReply has Redisson lose the reply to an acquire, as a client in that
// mode. Sent again, the script counts twice, and the unlock leaves a lock that
// nobody renews. Without that Java's call fails, and leaves one as well.
func javaLosesReply(mode string) func(*testing.T, *redisson.Bench) {
	return func(t *testing.T, b *redisson.Bench) {
		admin := b.Admin().Bind(t)
		proxy := faultproxy.Start(t, admin.Addr())
		jvm := b.JVM(func(o *redisson.Settings) {
			*o = redisson.At(proxy.Addr())
			o.Mode, o.Timeout = mode, 1000
			o.LockWatchdogTimeout = 6000 // longer than it takes Redisson to send again
		})
		rule := proxy.On(onLock(b.Name), faultproxy.CutAfterExecution())
		j := java(t, b, "c"+b.Name[4:7]).in(jvm)
		r := j.try(j.command("lock", 0, 0))
		rule.Wait(t, 1)
		if mode != "single" || b.Version == redisson.Classic {
			countedTwice(t, b, j, r)
		} else {
			leftBehind(t, b, r)
		}
		end := ends(t, admin, b.Name)
		lock := held(t, through(b, "goredis", 10*time.Second), b.Name)
		wantAt(t, time.Now(), end)
		j.wantNotHeld()
		must.Unlock(t, lock)
	}
}

func countedTwice(t *testing.T, b *redisson.Bench, j thread, r peer.Reply) {
	t.Helper()
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	wantCount(t, b, "2")
	j.unlock()
	wantCount(t, b, "1")
	if !j.do("isHeld").Bool() {
		t.Error("Java does not know of what it left")
	}
	t.Attr("observed", "Redisson sends an acquire again whose reply was lost, and counts twice: its unlock leaves the lock to the end of its lease")
}

func leftBehind(t *testing.T, b *redisson.Bench, r peer.Reply) {
	t.Helper()
	if r.Class != "org.redisson.client.RedisResponseTimeoutException" {
		t.Errorf("the acquire: %v, want a timeout", r.Err())
	}
	wantCount(t, b, "1")
	t.Attr("observed", "an acquire whose reply was lost throws RedisResponseTimeoutException and leaves the lock, which is not renewed, to the end of its lease")
}

// wantCount wants the lock to have one owner with that hold count; with "", none.
func wantCount(t *testing.T, b *redisson.Bench, want string) {
	t.Helper()
	hash := b.Admin().Bind(t).Map("HGETALL", b.Name)
	if want == "" && len(hash) == 0 {
		return
	}
	if counts := slices.Collect(maps.Values(hash)); len(counts) != 1 || counts[0] != want {
		t.Errorf("the hash is %v, want one field of %q", hash, want)
	}
}
