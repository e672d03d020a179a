package zkpeertest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// What a killed process of ours holds goes to Curator, and what a killed Curator holds to
// ours: the writing side, and a permit.
func TestCuratorCrash(t *testing.T) {
	p := peer.Start(t, libraries()[0].start(t))
	t.Run("ours", func(t *testing.T) {
		for _, kind := range []sessiontest.Kind{sessiontest.Writer, sessiontest.Permit} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				weDie(t, p, kind)
			})
		}
	})
	t.Run("theirs", func(t *testing.T) { theyDie(t, p, sessiontest.Writer, sessiontest.Permit) })
}

// theirs are the operations by which a library takes a kind and releases it, and the
// folder of its claims and ours.
func theirs(kind sessiontest.Kind, name string) (take, release peer.Command, folder string) {
	at := "/" + name
	c := peer.Command{Thread: name, Name: at, Wait: timeout.Milliseconds()}
	take, release, folder = c, c, at
	take.Op, release.Op = "lock", "unlock"
	switch kind {
	case sessiontest.Writer:
		take.Kind, release.Kind = "write", "write"
	case sessiontest.Permit:
		take.Op, release.Op, folder = "acquire", "release", at+"/leases"
	}
	return take, release, folder
}

// awaitClaims waits until so many claims are in a folder.
func awaitClaims(t *testing.T, client *zk.Conn, folder string, n int) {
	t.Helper()
	await.Until(t, timeout, "a holder, or two of permits, and a waiter", func() bool {
		nodes, _, err := client.Children(folder)
		return err == nil && len(nodes) == n
	})
}

// holders is how many may hold a kind.
func holders(kind sessiontest.Kind) int {
	if kind == sessiontest.Permit {
		return 2
	}
	return 1
}

// weDie kills a process of ours while they wait for what it holds. The second permit, of
// a client that lives, stays held.
func weDie(t *testing.T, p *peer.Process, kind sessiontest.Kind) {
	take, release, folder := theirs(kind, name(t))
	if !p.Do(take).Bool() { // once before: the first time is slow, and the holder's session short
		t.Fatal("not granted, want that the name is free")
	}
	p.Do(release)
	holder := sessiontest.StartHolder(t, kind, name(t))
	if kind == sessiontest.Permit {
		lives, err := kind.Take(await.Context(t, timeout), locker(t, zkhold.Options{}), name(t))
		if err != nil {
			t.Fatal(err)
		}
		defer must.Unlock(t, lives)
	}
	answer := p.Go(take)
	awaitClaims(t, observer, folder, holders(kind)+1)
	await.Never(t, 200*time.Millisecond, "granted beside our process", func() bool { return len(answer) > 0 })
	killed := time.Now()
	if err := holder.Process.Kill(); err != nil {
		t.Fatalf("kill what holds: %v", err)
	}
	if r := <-answer; r.Err() != nil || !r.Bool() {
		t.Fatalf("got %s and error %v, want that they hold it", r.Value, r.Err())
	}
	inTime(t, killed)
	p.Do(release)
}

// theyDie kills a program while ours wait for what it holds, of each kind.
func theyDie(t *testing.T, p *peer.Process, kinds ...sessiontest.Kind) {
	locked := make(chan *holdfast.Lock, len(kinds))
	for _, kind := range kinds {
		at := name(t) + "-" + string(kind)
		take, _, folder := theirs(kind, at)
		for range holders(kind) {
			if !p.Do(take).Bool() {
				t.Fatalf("%s: not granted, want that the name is free", kind)
			}
		}
		l := locker(t, zkhold.Options{})
		go func() {
			lock, err := kind.Take(await.Context(t, timeout), l, at)
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			locked <- lock
		}()
		awaitClaims(t, observer, folder, holders(kind)+1)
	}
	await.Never(t, 200*time.Millisecond, "granted beside theirs", func() bool { return len(locked) > 0 })
	killed := time.Now()
	p.Kill()
	for range kinds {
		if lock := <-locked; lock != nil {
			inTime(t, killed)
			must.Unlock(t, lock)
		}
	}
}

// inTime requires that no more time has passed since a crash than the session, a tick of
// the server, and a second.
func inTime(t *testing.T, crashed time.Time) {
	t.Helper()
	took := time.Since(crashed)
	t.Logf("free after %v", took)
	if most := ttl + zktest.Tick + time.Second; took > most {
		t.Errorf("free after %v, want %v at most", took, most)
	}
}

// weAreCutOff has them wait for a client that is cut off; it learns of the loss before
// they hold it.
func weAreCutOff(t *testing.T, p *peer.Process) {
	var link zktest.Link
	defer link.Heal()
	lock := must.Lock(t, locker(t, zkhold.Options{Dial: link.Dialer}), name(t))
	take, release, _ := theirs(sessiontest.Mutex, name(t))
	link.Cut()
	cut := time.Now()
	answer := p.Go(take)
	<-lock.Context(await.Context(t, timeout)).Done()
	select {
	case r := <-answer:
		t.Fatalf("got %s and error %v before we were notified", r.Value, r.Err())
	default:
	}
	if r := <-answer; r.Err() != nil || !r.Bool() {
		t.Fatalf("got %s and error %v, want that they hold it", r.Value, r.Err())
	}
	inTime(t, cut)
	p.Do(release)
	link.Heal()
	_ = lock.Unlock()
}
