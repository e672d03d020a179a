package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadline"
)

type key struct{}

var errReason = errors.New("reason")

// ends are the ways in which a context with a deadline in one second ends.
var ends = []struct {
	name       string
	end        func(c *deadline.Context, cancelParent context.CancelCauseFunc)
	err, cause error
}{
	{"deadline", func(*deadline.Context, context.CancelCauseFunc) { time.Sleep(time.Second) }, context.DeadlineExceeded, context.DeadlineExceeded},
	{"End", func(c *deadline.Context, _ context.CancelCauseFunc) { c.End() }, context.Canceled, context.Canceled},
	{"parent", func(_ *deadline.Context, cancel context.CancelCauseFunc) { cancel(errReason) }, context.Canceled, errReason},
}

func TestEnd(t *testing.T) {
	for _, e := range ends {
		for _, early := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer cancel(nil)
				c := deadline.New(parent, time.Now().Add(time.Second))
				defer c.End()
				if early {
					if isDone(c) {
						t.Fatalf("%s: Done before the end", e.name)
					}
				}
				time.Sleep(time.Second - 1)
				if err := c.Err(); err != nil {
					t.Fatalf("%s: got error %v before the end", e.name, err)
				}
				e.end(c, cancel)
				synctest.Wait()
				for range 2 { // the second time, after all else has ended, too
					checkEnded(t, c, e.name, e.err, e.cause)
					cancel(errors.New("later"))
					time.Sleep(time.Minute)
					c.End()
				}
			})
		}
	}
}

func checkEnded(t *testing.T, c *deadline.Context, name string, err, cause error) {
	t.Helper()
	if got := c.Err(); got != err {
		t.Errorf("%s: got error %v, want %v", name, got, err)
	}
	if got := context.Cause(c); got != cause {
		t.Errorf("%s: got cause %v, want %v", name, got, cause)
	}
	if !isDone(c) {
		t.Errorf("%s: not Done", name)
	}
	if got := c.Value(key{}); got != "value" {
		t.Errorf("%s: got value %v", name, got)
	}
	child, cancel := context.WithCancel(c)
	defer cancel()
	if got := child.Err(); got != err || context.Cause(child) != cause {
		t.Errorf("%s: a child has error %v and cause %v, want %v and %v", name, got, context.Cause(child), err, cause)
	}
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func TestDoneWakes(t *testing.T) {
	for _, e := range ends {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := deadline.New(parent, time.Now().Add(time.Second))
			defer c.End()
			child, stop := context.WithCancel(c) // must not need a goroutine, which the bubble would find
			defer stop()
			finished := make(chan struct{})
			go func() {
				defer close(finished)
				time.Sleep(time.Second / 2)
				e.end(c, cancel)
			}()
			<-c.Done()
			<-child.Done()
			if got := context.Cause(child); got != e.cause {
				t.Errorf("%s: a child has cause %v, want %v", e.name, got, e.cause)
			}
			<-finished
		})
	}
}

func TestDeadlineIsTheEarlierOne(t *testing.T) {
	now := time.Now()
	for _, want := range []time.Duration{time.Minute, 3 * time.Minute} {
		parent, cancel := context.WithDeadline(t.Context(), now.Add(3*time.Minute))
		defer cancel()
		own := time.Minute
		if want != own {
			own = time.Hour
		}
		if at, ok := deadline.New(parent, now.Add(own)).Deadline(); !ok || !at.Equal(now.Add(want)) {
			t.Errorf("got %v, %v, want %v", at.Sub(now), ok, want)
		}
	}
}

func TestDeadContexts(t *testing.T) {
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	c := deadline.New(dead, time.Now().Add(-time.Hour))
	if err := c.Err(); !errors.Is(err, context.Canceled) || !isDone(c) {
		t.Errorf("parent dead before the deadline: got %v", err)
	}
	late := deadline.New(t.Context(), time.Now())
	if !isDone(late) || !errors.Is(late.Err(), context.DeadlineExceeded) {
		t.Errorf("past deadline: got %v", late.Err())
	}
}

// A Context is one allocation if no one waits for its end: that is its purpose.
func TestOneAllocationUnlessWaitedFor(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := time.Now().Add(time.Hour)
	var c *deadline.Context
	got := testing.AllocsPerRun(100, func() {
		c = deadline.New(parent, at)
		_, _ = c.Deadline()
		_ = c.Err()
		_ = c.Value(key{})
		c.End()
		_ = c.Err()
	})
	if got > 1 {
		t.Errorf("got %v allocations, want 1", got)
	}
}
