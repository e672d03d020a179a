package sessiontest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

// quitterVar is the environment of a program that waits for a lock, gives up, and ends without
// Drain: how it gives up, and the name.
const quitterVar = "HOLDFAST_TEST_QUITTER"

// The ways to give up.
const (
	cancelled = "cancelled" // the context ends, when the input of the program does
	tooLong   = "too-long"  // the wait limit ends
	early     = "early"     // the context ends while the first try may be under way
)

// removalMost is how long a call that gives up waits for the removal of its claim.
const removalMost = 25 * time.Millisecond

// giveUp is the program that gives up. It says that it waits, unless it gives up early, and how
// long after it gave up Lock returned.
func (open Open) giveUp(way, name string) error {
	backend, err := open(os.Getenv(addrVar))
	if err != nil {
		return err
	}
	l := holdfast.New(backend, &holdfast.Options{Observe: func(_ context.Context, e holdfast.Event) {
		if e.Type == holdfast.EventWait && way != early {
			fmt.Println("waits")
		}
	}})
	warm, err := l.Lock(context.Background(), name+"-warm") // so that there is a session
	if err != nil {
		return err
	}
	if err := warm.Unlock(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var gaveUp time.Time
	var opts []holdfast.Option
	switch way {
	case tooLong:
		const limit = 300 * time.Millisecond
		gaveUp, opts = time.Now().Add(limit), []holdfast.Option{holdfast.Wait(limit)}
	case early:
		gaveUp = time.Now().Add(rand.N(3 * time.Millisecond))
		ctx, cancel = context.WithDeadline(ctx, gaveUp)
		defer cancel()
	default:
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			gaveUp = time.Now()
			cancel()
		}()
	}
	_, err = l.Lock(ctx, name, opts...)
	returned := time.Now()
	if ctx.Err() == nil && !errors.Is(err, holdfast.ErrBusy) {
		return fmt.Errorf("got error %w, want that the lock is busy, or that ctx has ended", err)
	}
	fmt.Println(returned.Sub(gaveUp))
	return nil
}

// GoneWaiters has programs wait for a lock, give up, and end at once, without Drain. The holder
// unlocks afterwards, and then a third client has the lock within 100 ms: nobody waits for the
// end of the session of a program that is gone.
func (s Store) GoneWaiters(t *testing.T) {
	const rounds = 20
	holder, third := s.locker(t), s.locker(t)
	for i, slow := 0, 0; i < rounds; {
		way := []string{cancelled, cancelled, early, cancelled, tooLong}[i%5]
		behind := i%2 == 1 // the third client waits behind the program, otherwise it comes later
		var counts bool
		passed := t.Run(fmt.Sprintf("%d %s", i+1, way), func(t *testing.T) { counts = s.goneWaiter(t, holder, third, way, behind) })
		switch {
		case !passed:
			return // each further round may take a TTL
		case counts:
			i++
		case slow == 2*rounds:
			t.Fatalf("%d programs needed %v or more to remove their claims: the machine is too slow", slow, removalMost)
		default:
			slow++
		}
	}
}

// goneWaiter is one round of GoneWaiters. It returns false if the machine was too slow: the
// program ended before its claim was removed, because it waits for 25 ms only.
func (s Store) goneWaiter(t *testing.T, holder, third *holdfast.Locker, way string, behind bool) (counts bool) {
	const limit = 100 * time.Millisecond
	lock := must.Lock(t, holder, name(t))
	out, giveUp := s.startQuitter(t, way, name(t))
	line := func(what string) string {
		said, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("got %q, %v, want %s", said, err, what)
		}
		return strings.TrimSpace(said)
	}
	if way != early {
		if said := line("that it waits"); said != "waits" {
			t.Fatalf("got %q, want that it waits", said)
		}
	}
	var next *Waiter
	if behind {
		next = Wait(within(t), t, third, name(t))
	}
	if way == cancelled {
		if n := s.Left(t, name(t)); n < 2 {
			t.Fatalf("the store has %d claims, want those of the holder and of the program", n)
		}
		if behind {
			await.Until(t, Timeout, "the third client waits", func() bool { return s.Left(t, name(t)) == 3 })
		}
		giveUp()
	}
	removal, err := time.ParseDuration(line("how long Lock took to return"))
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err == nil || len(rest) > 0 {
		t.Fatalf("got %q, %v, want the end of the program", rest, err)
	}

	watch := await.NewWatch(t)
	must.Unlock(t, lock)
	if next == nil {
		next = Wait(within(t), t, third, name(t))
	}
	<-next.Granted
	took := watch.Took()
	if next.lock == nil {
		t.FailNow()
	}
	must.Unlock(t, next.lock)
	t.Logf("Lock returned after %v, the name was free after %v", removal, took)
	switch {
	case took <= limit:
	case removal >= removalMost:
		return false
	default:
		t.Errorf("the third client had the lock %v after the Unlock, want %v at most: a waiter that is gone blocks the name", took, limit)
	}
	return true
}

// startQuitter starts a program of a package whose TestMain calls RunProgram. The program waits for a
// name and then gives up: when giveUp is called, or after its limit. out is what it says.
func (s Store) startQuitter(t *testing.T, way, name string) (out *bufio.Reader, giveUp func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// With the race detector a program goes on for a second after os.Exit, unless GORACE says 0.
	cmd.Env = append(os.Environ(), quitterVar+"="+way+" "+name, addrVar+"="+s.At, "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return StartProgram(t, cmd), func() { _ = in.Close() }
}
