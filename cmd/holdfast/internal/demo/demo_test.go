package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
)

// small is a demo that is quick, and patient with a busy machine.
func small(t *testing.T, out io.Writer) (Options, *StandIn) {
	t.Helper()
	server, err := StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Access: open.Access{URL: server.URL()}, Buyers: 12, Items: 3, Processes: 2,
		Timeout: time.Minute, Look: 600 * time.Millisecond, Out: out,
		Worker: []string{self}, Env: append(os.Environ(), workerVariable+"=1", "GORACE=atexit_sleep_ms=0"), // it would take each process a second
		lease: time.Second,
	}, server
}

func checkNothingLeft(t *testing.T, s *StandIn) {
	t.Helper()
	if keys := s.Keys(); len(keys) > 0 {
		t.Errorf("the demo left keys behind: %q", keys)
	}
}

func TestEverythingHappensAsClaimed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o, server := small(t, &out)
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"12 buyers in 2 processes",
		"Round 1: without a lock",
		"Round 2: with a lock",
		"3 sales of 3 items, and the stock says 0. 9 buyers got the answer: sold out.",
		"The token rose with every sale",
		"HGETALL holdfast-demo:",
		"Round 3: a holder that is paused",
		"alice is paused (SIGSTOP)",
		"her context is cancelled",
		"The ledger refuses her write",
		"alice calls Unlock and gets ErrLost",
		"stale write refused",
		"Everything happened as claimed.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\r") {
		t.Error("control characters although the output is no terminal")
	}
	checkNothingLeft(t, server)
}

// A demo that cannot fail proves nothing.
func TestWithoutTheLockItFails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	o, server := small(t, &out)
	o.unlocked, o.Look = true, 0
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "the demo failed: with a lock ") {
		t.Errorf("got %v, want that the round with a lock failed\n%s", err, &out)
	}
	if strings.Contains(out.String(), "as claimed") || !strings.Contains(out.String(), "FAILED") {
		t.Errorf("the output does not show the failure\n%s", &out)
	}
	checkNothingLeft(t, server)
}

// trigger is a writer that calls do when it is given text.
type trigger struct {
	bytes.Buffer
	text string
	do   func()
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.do()
	}
	return n, err
}

func TestStoppedEarlyItLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Round 2", "This is her lock", "alice is paused"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &trigger{text: at, do: cancel}
			o, server := small(t, out)
			if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want %v\n%s", err, context.Canceled, &out.Buffer)
			}
			checkNothingLeft(t, server) // and goleak: no process is left either, each has a goroutine
		})
	}
}

func TestTimeoutNamesTheRound(t *testing.T) {
	t.Parallel()
	o, server := small(t, io.Discard)
	o.Timeout, o.Look = o.lease/2, 0 // round 3 takes at least a lease
	err := Run(t.Context(), o)
	if err == nil || !strings.HasPrefix(err.Error(), "round ") || !strings.Contains(err.Error(), "took longer than 500ms") {
		t.Fatalf("got %v, want an error that says what took too long", err)
	}
	checkNothingLeft(t, server)
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	o, server := small(t, io.Discard)
	server.Close()
	if err := Run(t.Context(), o); err == nil {
		t.Fatal("got nil, want an error: there is no server")
	}
}

func TestWorkerThatIsNoWorker(t *testing.T) {
	t.Parallel()
	o, _ := small(t, io.Discard)
	o.Worker = []string{"/bin/sh", "-c", "echo something is wrong >&2; exit 3"}
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "something is wrong") {
		t.Fatalf("got %v, want an error with what the process said", err)
	}
}
