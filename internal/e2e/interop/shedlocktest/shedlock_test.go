package shedlocktest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/must"
)

const (
	ttl     = 2 * time.Second // of our locks
	timeout = 30 * time.Second
	prompt  = time.Second // bounds how long a waiter needs to see that a name is free
)

// hour is a lease that does not end in a test.
const hour = 3_600_000

// TestSharedTable has ShedLock and ours take one lock by turns, in the table of ShedLock's
// documentation and in that of CreateTable.
func TestSharedTable(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("documented", func(t *testing.T) { takeTurns(t, s, java(t, s.url)) })
			s.createTable(t)
			t.Run("created", func(t *testing.T) {
				p := java(t, s.url)
				t.Run("names", func(t *testing.T) { tellNamesApart(t, s, p) })
				takeTurns(t, s, p)
			})
		})
	}
}

// takeTurns ends p.
func takeTurns(t *testing.T, s *store, p *peer.Process) {
	t.Run("holds", func(t *testing.T) { theyHold(t, s, p) })
	t.Run("refused", func(t *testing.T) { weHold(t, s, p) })
	t.Run("at least", func(t *testing.T) { atLeast(t, s, p) })
	t.Run("late", func(t *testing.T) { theyAreLate(t, s, p) })
	t.Run("contends", func(t *testing.T) { contend(t, s, p) })
	t.Run("survives", func(t *testing.T) { weDie(t, s, p) })
	t.Run("dies", func(t *testing.T) { theyDie(t, s, p) }) // last: it is gone then
}

// mustRefuse requires that ours is refused, and names the holder.
func mustRefuse(t *testing.T, l *holdfast.Locker, name string) {
	t.Helper()
	_ = refused(t, l, name)
}

// refused is mustRefuse, and returns the error.
func refused(t *testing.T, l *holdfast.Locker, name string) *holdfast.BusyError {
	t.Helper()
	var busy *holdfast.BusyError
	if _, err := l.TryLock(await.Context(t, timeout), name); !errors.As(err, &busy) {
		t.Fatalf("TryLock beside them: got error %v, want a BusyError", err)
	}
	if host, _ := os.Hostname(); host != "" && !strings.Contains(busy.Holder, host) {
		t.Errorf("BusyError: got holder %q, want their host, %q", busy.Holder, host)
	}
	return busy
}

// theyHold has ours wait for their unlock, also after they have extended.
func theyHold(t *testing.T, s *store, p *peer.Process) {
	l := s.locker(t)
	if !p.Do(peer.Command{Op: "lock", Name: "held", Lease: hour}).Bool() {
		t.Fatal("they were not granted a free name")
	}
	mustRefuse(t, l, "held")
	if !p.Do(peer.Command{Op: "extend", Name: "held", Lease: hour}).Bool() {
		t.Fatal("they could not extend what they hold")
	}
	locked := make(chan *holdfast.Lock, 1)
	go func() { locked <- must.Lock(t, l, "held") }()
	select {
	case <-locked:
		t.Fatal("granted beside them")
	case <-time.After(300 * time.Millisecond):
	}
	began := await.NewWatch(t)
	p.Do(peer.Command{Op: "unlock", Name: "held"})
	lock := <-locked
	if took := began.Took(); took > prompt {
		t.Errorf("granted %v after their unlock, want %v at most", took, prompt)
	}
	must.Unlock(t, lock)
}

// weHold has them refused for longer than a lease of ours, which is renewed.
func weHold(t *testing.T, s *store, p *peer.Process) {
	lock := must.Lock(t, s.locker(t), "ours")
	if p.Do(peer.Command{Op: "lock", Name: "ours", Lease: hour, Wait: (ttl + ttl/2).Milliseconds()}).Bool() {
		t.Fatal("they were granted what we hold")
	}
	must.Unlock(t, lock)
	if !p.Do(peer.Command{Op: "lock", Name: "ours", Lease: hour}).Bool() {
		t.Error("they were refused after our unlock")
	}
	p.Do(peer.Command{Op: "unlock", Name: "ours"})
}

// tellNamesApart has names that differ in case or in an accent be locks of their own, and
// the same name be one lock.
func tellNamesApart(t *testing.T, s *store, p *peer.Process) {
	l := s.locker(t)
	for _, name := range []string{"Job", "JOB", "jöb"} {
		if !p.Do(peer.Command{Op: "lock", Name: name, Lease: hour}).Bool() {
			t.Errorf("they were not granted %q, which is free", name)
			continue
		}
		mustRefuse(t, l, name)
	}
	for _, name := range []string{"job", "jób"} {
		lock := must.Lock(t, l, name)
		if p.Do(peer.Command{Op: "lock", Name: name, Lease: hour}).Bool() {
			t.Errorf("they were granted %q, which we hold", name)
		}
		must.Unlock(t, lock)
	}
	for _, name := range []string{"Job", "JOB", "jöb"} {
		p.Do(peer.Command{Op: "unlock", Name: name})
		must.Unlock(t, must.Lock(t, l, name))
	}
}

// atLeast has both leave a name taken after the unlock, and the table says for how long.
func atLeast(t *testing.T, s *store, p *peer.Process) {
	keep(t, s.locker(t), p, "least", func() (left time.Duration) {
		var us int64
		if err := s.db.QueryRow(s.left, "least").Scan(&us); err != nil {
			t.Fatal(err)
		}
		return time.Duration(us) * time.Microsecond
	})
}

// keep has both leave a name taken after the unlock. Until then nobody is granted it, by
// either library, and a waiter is soon after. left is for how long the server keeps it.
func keep(t *testing.T, l *holdfast.Locker, p *peer.Process, name string, left func() time.Duration) {
	const least, rounded = 1500 * time.Millisecond, 5 * time.Millisecond
	if !p.Do(peer.Command{Op: "lock", Name: name, Lease: hour}).Bool() { // a JVM is slow the first time
		t.Fatal("they were not granted a free name")
	}
	p.Do(peer.Command{Op: "unlock", Name: name})
	watch := await.NewWatch(t)
	began := time.Now()
	lock := must.Lock(t, l, name, holdfast.AtLeast(least))
	granted := time.Now()
	must.Unlock(t, lock)
	if !p.Do(peer.Command{Op: "lock", Name: name, Lease: hour, N: least.Milliseconds(), Wait: timeout.Milliseconds()}).Bool() {
		t.Fatal("they were never granted it")
	}
	if took := time.Since(began); took < least || time.Since(granted) > least+prompt+watch.Late() {
		t.Errorf("they were granted it %v after ours, want %v", took, least)
	}
	granted = time.Now() // or before
	p.Do(peer.Command{Op: "unlock", Name: name})
	before := left()
	busy := refused(t, l, name)
	if after := left(); busy.Remaining > before+rounded || busy.Remaining < after-rounded {
		t.Errorf("BusyError: got %v left, and the server says %v before, and %v after", busy.Remaining, before, after)
	}
	must.Unlock(t, must.Lock(t, l, name))
	if took := time.Since(began); took < 2*least-2*rounded || time.Since(granted) > least+prompt+watch.Late() {
		t.Errorf("granted %v after both grants began, want %v for each", took, least)
	}
}

// theyAreLate has their unlock come after the lease has ended and we hold.
func theyAreLate(t *testing.T, s *store, p *peer.Process) {
	if !p.Do(peer.Command{Op: "lock", Name: "late", Lease: 300}).Bool() {
		t.Fatal("they were not granted a free name")
	}
	lock := must.Lock(t, s.locker(t), "late")
	p.Do(peer.Command{Op: "unlock", Name: "late"})
	if _, err := s.locker(t).TryLock(await.Context(t, timeout), "late"); !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("TryLock after their late unlock: got error %v, want ErrBusy", err)
	}
	must.Unlock(t, lock)
}

// contend has both count in a table, by reading and writing: a client that is inside beside
// another loses a count.
func contend(t *testing.T, s *store, p *peer.Process) {
	const rounds = 30
	s.exec(t, "CREATE TABLE IF NOT EXISTS counter (n BIGINT)")
	s.exec(t, "DELETE FROM counter")
	s.exec(t, "INSERT INTO counter VALUES (0)")
	var answers []<-chan peer.Reply
	for _, thread := range []string{"one", "two"} {
		answers = append(answers, p.Go(peer.Command{Op: "rounds", Thread: thread, Name: "contended", N: rounds, Value: "counter"}))
	}
	var wg sync.WaitGroup
	for range 2 {
		l := s.locker(t)
		wg.Go(func() {
			for range rounds {
				lock := must.Lock(t, l, "contended")
				var n int
				if err := s.db.QueryRow("SELECT n FROM counter").Scan(&n); err != nil {
					t.Error(err)
				}
				s.exec(t, "UPDATE counter SET n = "+strconv.Itoa(n+1))
				must.Unlock(t, lock)
			}
		})
	}
	wg.Wait()
	for _, answer := range answers {
		if r := <-answer; r.Err() != nil {
			t.Error(r.Err())
		}
	}
	var n int
	if err := s.db.QueryRow("SELECT n FROM counter").Scan(&n); err != nil || n != 4*rounds {
		t.Errorf("counted %d, error %v, want %d", n, err, 4*rounds)
	}
}

// weDie kills a process of ours: they get the lock when its lease has ended.
func weDie(t *testing.T, s *store, p *peer.Process) {
	w := exec.Command(os.Args[0])
	w.Env = append(os.Environ(), workerVar+"="+s.name+" "+s.dsn)
	w.Stderr = os.Stderr
	if _, err := w.StdinPipe(); err != nil { // which keeps it alive
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan string, 1)
	done, err := child.Start(w, func() {
		lines := bufio.NewScanner(out)
		lines.Scan()
		held <- lines.Text()
		_ = w.Wait() // it is killed
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Kill()
		<-done
	})
	if line := <-held; line != "held" {
		t.Fatalf("the process said %q, want held", line)
	}
	if p.Do(peer.Command{Op: "lock", Name: "job", Lease: hour}).Bool() {
		t.Fatal("they were granted what our process holds")
	}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	died := time.Now()
	if !p.Do(peer.Command{Op: "lock", Name: "job", Lease: hour, Wait: timeout.Milliseconds()}).Bool() {
		t.Fatal("they were never granted it")
	}
	if took := time.Since(died); took > ttl+prompt || took < ttl/4 {
		t.Errorf("they were granted it %v after our process died, want about what is left of %v", took, ttl)
	}
	p.Do(peer.Command{Op: "unlock", Name: "job"})
}

// theyDie kills ShedLock: ours gets the lock when lock_until has passed.
func theyDie(t *testing.T, s *store, p *peer.Process) {
	const lease = 2 * time.Second
	began := time.Now()
	if !p.Do(peer.Command{Op: "lock", Name: "dies", Lease: lease.Milliseconds()}).Bool() {
		t.Fatal("they were not granted a free name")
	}
	granted := await.NewWatch(t)
	p.Kill()
	must.Unlock(t, must.Lock(t, s.locker(t), "dies"))
	if took := time.Since(began); took < lease {
		t.Errorf("granted %v after theirs, want not before %v", took, lease)
	}
	if took := granted.Took(); took > lease+prompt {
		t.Errorf("granted %v after theirs, want %v at most", took, lease+prompt)
	}
}
