package zkholdtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/zkhold"
)

// timeout is how long a test waits for what is sure to come.
const timeout = 30 * time.Second

// locker returns a Locker with a session of its own.
func locker(t *testing.T, opts *zkhold.Options) *holdfast.Locker {
	t.Helper()
	return sessiontest.LockerOf(t, open(t, opts))
}

// within returns a context that ends after this timeout.
func within(t *testing.T) context.Context { return await.Context(t, timeout) }

// name returns the name of a lock for t alone, without a slash.
func name(t *testing.T) string { return strings.ReplaceAll(t.Name(), "/", "-") }

// nodes returns the nodes below a name, those of nested names too.
func nodes(t *testing.T, name string) []string {
	t.Helper()
	children, _, err := observer.Children("/" + name)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Logf("children of /%s: %v", name, err)
		return []string{err.Error()}
	}
	return children
}

// waitsIn waits until there are n nodes below a name.
func waitsIn(t *testing.T, name string, n int) {
	t.Helper()
	await.Until(t, timeout, fmt.Sprintf("%d nodes of %s", n, name), func() bool { return len(nodes(t, name)) == n })
}

// A connection that breaks for less than the session's time costs no lock.
func TestShortCut(t *testing.T) {
	t.Parallel()
	var link zktest.Link
	defer link.Heal()
	// The client gives the connection up when a renewal, after a third of the session, has
	// no answer for a ninth of it. It may then take another ninth and a second to be
	// connected again, and has until two thirds of the session have passed.
	const session = 16 * ttl
	l := locker(t, &zkhold.Options{TTL: session, Dial: link.Dialer})
	lock := must.Lock(t, l, name(t))
	link.Cut()
	time.Sleep(session * 4 / 9)
	link.Heal()
	time.Sleep(session * 6 / 10) // longer than what was left of the session
	if err := lock.Err(); err != nil {
		t.Errorf("got error %v, want that the lock is held", err)
	}
	if n := nodes(t, name(t)); len(n) != 1 {
		t.Errorf("got nodes %v, want one", n)
	}
	must.Unlock(t, lock)
}

// A connection that comes after another wakes a waiter: nobody knows what was missed.
func TestWaitEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	lock := must.Lock(t, locker(t, nil), name(t))
	defer must.Unlock(t, lock)
	var link zktest.Link
	defer link.Heal()
	b := open(t, &zkhold.Options{TTL: 4 * ttl, Dial: link.Dialer})
	claim := driver.Claim{Name: name(t), Client: "client", Seq: 1, Owner: "client:1", TTL: 4 * ttl, Count: 1, Tokens: 1}
	var out driver.Outcome
	for range 2 { // the second names the holder: else there is that to be learnt
		var err error
		if out, err = b.Try(within(t), claim); err != nil || out.Granted || !out.Queued {
			t.Fatalf("got %+v, %v, want a place in the queue", out, err)
		}
	}
	w := b.Waiter(claim)
	defer w.Close()
	waited := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := w.Wait(ctx, out)
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Fatalf("got %v while nothing changed", err)
	case <-time.After(ttl / 2):
	}
	link.Cut()
	time.Sleep(2*ttl + ttl/2) // the client has given the connection up
	link.Heal()
	if err := <-waited; err != nil {
		t.Errorf("got error %v, want that another try is worth while", err)
	}
	if err := b.Release(within(t), claim); err != nil {
		t.Error(err)
	}
}

// A release that could not be sent is made up for when the connection is back, though
// nobody asks for it again: the session lives on.
func TestReleaseWhileDisconnected(t *testing.T) {
	t.Parallel()
	var link zktest.Link
	defer link.Heal()
	b := open(t, &zkhold.Options{TTL: 4 * ttl, Dial: link.Dialer})
	claim := driver.Claim{Name: name(t), Client: "client", Seq: 1, Owner: "client:1", TTL: 4 * ttl, Count: 1, Tokens: 1}
	if out, err := b.Try(within(t), claim); err != nil || !out.Granted {
		t.Fatalf("got %+v, %v, want a grant", out, err)
	}
	link.Cut()
	await.Until(t, 4*ttl, "the client is disconnected", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := b.Renew(ctx, []driver.Claim{claim})
		// If ctx ended before anything was sent, the client may be connected.
		return errors.Is(err, driver.ErrNotExecuted) && !errors.Is(err, context.DeadlineExceeded)
	})
	if err := b.Release(within(t), claim); !errors.Is(err, driver.ErrNotExecuted) {
		t.Errorf("Release while disconnected: got error %v, want ErrNotExecuted", err)
	}
	link.Heal()
	waitsIn(t, name(t), 0)
	if err := b.Release(within(t), claim); err != nil {
		t.Errorf("Release again: got error %v, want that it ended the claim", err)
	}
}

// A Try that was given up while its node was being made leaves none:
// the node, or the Release.
func TestTryIsGivenUp(t *testing.T) {
	t.Parallel()
	b := open(t, nil)
	granted := 0
	for i := range 200 {
		claim := driver.Claim{Name: name(t), Client: "client", Seq: uint64(i + 1), Owner: fmt.Sprint("client:", i+1), TTL: ttl, Count: 1, Tokens: 1}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(2*time.Millisecond))
		out, err := b.Try(ctx, claim)
		cancel()
		if err == nil && out.Granted {
			granted++
		}
		claim.Indeterminate = err != nil
		if err := b.Release(within(t), claim); err != nil && !errors.Is(err, driver.ErrGone) {
			t.Fatal(err)
		}
		if left := nodes(t, name(t)); len(left) > 0 {
			t.Fatalf("round %d: left: %v", i, left)
		}
	}
	t.Logf("%d were granted", granted)
}

// A node that somebody removes is a loss, by the next renewal; the others of the session
// stay.
func TestNodeIsRemoved(t *testing.T) {
	t.Parallel()
	l := locker(t, nil)
	lost, held := must.Lock(t, l, name(t)), must.Lock(t, l, name(t)+"-other")
	if err := observer.Delete("/"+name(t)+"/"+nodes(t, name(t))[0], -1); err != nil {
		t.Fatal(err)
	}
	<-lost.Context(within(t)).Done()
	var why *driver.GoneError
	if err := lost.Unlock(); !errors.Is(err, holdfast.ErrLost) || errors.As(err, &why) && why.Reason != driver.ReasonDeleted {
		t.Errorf("got error %v, want ErrLost, since it was deleted", err)
	}
	must.Unlock(t, held)
}

// A node that somebody removes as soon as it is made is notified of without a renewal, although
// it was not watched yet; and so is one that was.
func TestRemovedNodeIsTold(t *testing.T) {
	t.Parallel()
	b := open(t, &zkhold.Options{TTL: 20 * ttl})
	ctx, cancel := context.WithCancel(within(t))
	hints, ended := make(chan uint64, 100), make(chan error)
	go func() { ended <- b.Notify(ctx, "client", func(seq uint64) { hints <- seq }) }()
	for i, after := range []time.Duration{0, 500 * time.Millisecond} {
		seq := uint64(i + 1)
		claim := driver.Claim{Name: name(t), Client: "client", Seq: seq, Owner: fmt.Sprint("client:", seq), TTL: 20 * ttl, Count: 1, Tokens: 1}
		if out, err := b.Try(ctx, claim); err != nil || !out.Granted {
			t.Fatalf("got %+v, %v, want a grant", out, err)
		}
		time.Sleep(after)
		if err := observer.Delete("/"+name(t)+"/"+nodes(t, name(t))[0], -1); err != nil {
			t.Fatal(err)
		}
		removed := await.NewWatch(t)
		select {
		case got := <-hints:
			if took := removed.Took(); got != seq || took > ttl {
				t.Errorf("removed after %v: told of %d after %v, want %d at once", after, got, took, seq)
			}
		case <-ctx.Done():
			t.Fatalf("removed after %v: not told", after)
		}
		if answers, err := b.Renew(ctx, []driver.Claim{claim}); err != nil || !errors.Is(answers[0].Err, driver.ErrGone) {
			t.Errorf("Renew: got %+v and error %v, want ErrGone", answers, err)
		}
	}
	cancel()
	<-ended
}

// The waiter whose node is removed takes a new one, and is granted.
func TestWaitersNodeIsRemoved(t *testing.T) {
	t.Parallel()
	lock := must.Lock(t, locker(t, nil), name(t))
	first := nodes(t, name(t))[0]
	got := make(chan *holdfast.Lock)
	other := locker(t, &zkhold.Options{TTL: 20 * ttl}) // else a renewal would find it
	go func() { got <- must.Lock(t, other, name(t)) }()
	waitsIn(t, name(t), 2)
	for _, node := range nodes(t, name(t)) {
		if node != first {
			if err := observer.Delete("/"+name(t)+"/"+node, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitsIn(t, name(t), 2)
	must.Unlock(t, lock)
	must.Unlock(t, <-got)
}

// Close does not wait for a server that stands still longer than for the answer to it.
func TestCloseWhileTheServerStandsStill(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	idle := openOn(t, server, &zkhold.Options{TTL: 10 * ttl})
	must.Unlock(t, must.Lock(t, sessiontest.LockerOf(t, idle), name(t)))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	paused := await.NewWatch(t)
	idle.Close()
	if took := paused.Took(); took > ttl {
		t.Errorf("Close took %v, want no longer than for the answer to it", took)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
}
