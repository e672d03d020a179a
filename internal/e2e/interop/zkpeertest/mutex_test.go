package zkpeertest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// prompt bounds how long it may take that one program learns of the other's unlock.
const prompt = ttl / 2

// Each library and ours share mutexes.
func TestMutex(t *testing.T) {
	for _, lib := range libraries() {
		t.Run(lib.name, func(t *testing.T) {
			t.Run("holds", func(t *testing.T) { theyHold(t, peer.Start(t, lib.start(t))) })
			t.Run("waits", func(t *testing.T) { theyWait(t, peer.Start(t, lib.start(t))) })
			t.Run("contends", func(t *testing.T) { theyContend(t, peer.Start(t, lib.start(t))) })
			t.Run("dies", func(t *testing.T) { theyDie(t, peer.Start(t, lib.start(t)), sessiontest.Mutex) })
			t.Run("survives", func(t *testing.T) {
				p := peer.Start(t, lib.start(t))
				t.Run("kill", func(t *testing.T) { t.Parallel(); weDie(t, p, sessiontest.Mutex) })
				t.Run("cut", func(t *testing.T) { t.Parallel(); weAreCutOff(t, p) })
			})
		})
	}
}

func theyHold(t *testing.T, p *peer.Process) {
	l, at := locker(t, zkhold.Options{}), "/"+name(t)
	if !p.Do(peer.Command{Op: "lock", Name: at, Wait: timeout.Milliseconds()}).Bool() {
		t.Fatal("not granted, want that the name is free")
	}
	var busy *holdfast.BusyError
	if _, err := l.TryLock(await.Context(t, timeout), name(t)); !errors.As(err, &busy) || busy.Holder == "" {
		t.Fatalf("TryLock: got error %v, want one that says who holds it", err)
	}
	locked := make(chan *holdfast.Lock, 1)
	go func() { locked <- must.Lock(t, l, name(t)) }()
	select {
	case <-locked:
		t.Fatal("granted beside them")
	case <-time.After(200 * time.Millisecond):
	}
	released := await.NewWatch(t)
	p.Do(peer.Command{Op: "unlock", Name: at})
	lock := <-locked
	if took := released.Took(); took > prompt {
		t.Errorf("granted %v after their unlock, want %v at most", took, prompt)
	}
	must.Unlock(t, lock)
}

func theyWait(t *testing.T, p *peer.Process) {
	l, at := locker(t, zkhold.Options{}), "/"+name(t)
	lock := must.Lock(t, l, name(t))
	if p.Do(peer.Command{Op: "lock", Name: at, Wait: 200}).Bool() {
		t.Fatal("granted beside us")
	}
	answer := p.Go(peer.Command{Op: "lock", Name: at, Wait: timeout.Milliseconds()})
	await.Until(t, timeout, "two nodes", func() bool {
		nodes, _, err := observer.Children(at)
		return err == nil && len(nodes) == 2
	})
	released := await.NewWatch(t)
	must.Unlock(t, lock)
	if r := <-answer; r.Err() != nil || !r.Bool() {
		t.Fatalf("got %s and error %v, want that they hold it", r.Value, r.Err())
	}
	if took := released.Took(); took > prompt {
		t.Errorf("granted %v after our unlock, want %v at most", took, prompt)
	}
	p.Do(peer.Command{Op: "unlock", Name: at})
	must.Unlock(t, must.Lock(t, l, name(t)))
}

// theyContend counts in a node, by reading and writing: a client that is inside beside another
// loses a count. Tokens of ours rise.
func theyContend(t *testing.T, p *peer.Process) {
	const ours, theirs = 40, 60
	counter := "/" + name(t) + "-counter"
	if _, err := observer.Create(counter, []byte("0"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	var answers []<-chan peer.Reply
	for _, thread := range []string{"one", "two"} {
		answers = append(answers, p.Go(peer.Command{Op: "rounds", Thread: thread, Name: "/" + name(t), N: theirs, Value: counter}))
	}
	var last atomic.Uint64
	var wg sync.WaitGroup
	for range 3 {
		l, conn := locker(t, zkhold.Options{}), server.Client(t)
		wg.Go(func() {
			for i := range ours {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				if i%5 == 4 { // some give up
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
				}
				lock, err := l.Lock(ctx, name(t))
				cancel()
				if err != nil {
					if i%5 != 4 {
						t.Error(err)
					}
					lock = must.Lock(t, l, name(t))
				}
				if before := last.Swap(lock.Token()); before >= lock.Token() {
					t.Errorf("token %d after %d", lock.Token(), before)
				}
				count(t, conn, counter)
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
	if _, err := observer.Sync(counter); err != nil {
		t.Fatal(err)
	}
	if data, _, err := observer.Get(counter); err != nil || string(data) != strconv.Itoa(3*ours+2*theirs) {
		t.Errorf("counted %s, %v, want %d", data, err, 3*ours+2*theirs)
	}
}

func count(t *testing.T, conn *zk.Conn, node string) {
	if _, err := conn.Sync(node); err != nil {
		t.Error(err)
	}
	data, _, err := conn.Get(node)
	if err != nil {
		t.Error(err)
		return
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		t.Error(err)
	}
	if _, err := conn.Set(node, []byte(strconv.Itoa(n+1)), -1); err != nil {
		t.Error(err)
	}
}
