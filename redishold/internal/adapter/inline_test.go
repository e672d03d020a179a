package adapter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/redishold"
)

// inlineSender is a fakeSender that is an Inliner. It records the calls that it runs in the
// goroutines of their callers.
type inlineSender struct {
	fakeSender
	refuses bool
	calls   []string // the keys, each with "alone" if the call was
}

// few is not what other Senders have.
const few = fewCalls / 2

func (*inlineSender) FewCalls() int { return few }

func (f *inlineSender) PlanInline(inFlight int) InlinePlan {
	switch {
	case f.refuses:
		return NotInline
	case inFlight == 0:
		return OverOwn
	}
	return OverShared
}

func (f *inlineSender) RunInline(ctx context.Context, plan InlinePlan, call *redishold.Call) redishold.Result {
	f.mu.Lock()
	what := firstKey(call)
	if call.Source {
		what += "(source)"
	}
	if plan == OverOwn {
		what += " alone"
	}
	f.calls = append(f.calls, what)
	do := f.plan[firstKey(call)]
	f.mu.Unlock()
	if do != nil {
		return do(ctx, call)
	}
	return redishold.Result{Value: firstKey(call)}
}

// within returns a context that only its deadline can end.
func within(d time.Duration) context.Context {
	return deadline.New(context.Background(), time.Now().Add(d))
}

// interruptibleSender is an inlineSender that is also Interruptible.
type interruptibleSender struct{ inlineSender }

func (f *interruptibleSender) PlanInterruptible() InlinePlan { return f.PlanInline(1) }

// A call that only its deadline can end runs in the goroutine of its caller, while few calls
// are in flight.
func TestInline(t *testing.T) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		refuses bool
		others  int // calls in flight
		want    []string
	}{
		{"alone", within(time.Hour), false, 0, []string{"k alone"}},
		{"beside few", within(time.Hour), false, few - 1, []string{"k"}},
		{"beside many", within(time.Hour), false, few, nil},
		{"may be cancelled", deadline.New(cancellable, time.Now().Add(time.Hour)), false, 0, nil},
		{"has no deadline", context.Background(), false, 0, nil},
		{"the library cannot", within(time.Hour), true, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &inlineSender{refuses: tt.refuses}
			c := NewCombiner(f)
			c.inFlight = tt.others
			if r := c.DoOne(tt.ctx, callFor("k")); r.Value != "k" || r.Err != nil {
				t.Errorf("got %v and error %v, want k", r.Value, r.Err)
			}
			if !slices.Equal(f.calls, tt.want) {
				t.Errorf("ran %q in the goroutine of the caller, want %q", f.calls, tt.want)
			}
			if c.mu.Lock(); c.inFlight != tt.others || len(c.sent) != 0 {
				t.Errorf("afterwards %d calls are in flight in %d batches, want %d in 0", c.inFlight, len(c.sent), tt.others)
			}
			c.mu.Unlock()
		})
	}
}

// A call whose caller may give up runs in the goroutine of its caller if the library returns as
// soon as the caller gives up.
func TestInlineOfACallerThatMayGiveUp(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, tt := range []struct {
		name    string
		parent  context.Context
		refuses bool
		others  int // calls in flight
		want    []string
	}{
		{"alone", cancellable, false, 0, []string{"k"}},
		{"beside few", cancellable, false, few - 1, []string{"k"}},
		{"beside many", cancellable, false, few, nil},
		{"the library cannot", cancellable, true, 0, nil},
		{"has given up", ended, false, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &interruptibleSender{inlineSender{refuses: tt.refuses}}
			c := NewCombiner(f)
			c.inFlight = tt.others
			c.DoOne(deadline.New(tt.parent, time.Now().Add(time.Hour)), callFor("k"))
			if !slices.Equal(f.calls, tt.want) {
				t.Errorf("ran %q in the goroutine of the caller, want %q", f.calls, tt.want)
			}
		})
	}
}

// A caller that gives up returns at once, and calls of others go on: those in flight, and the next.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := func(ctx context.Context, call *redishold.Call) redishold.Result {
			select {
			case <-ctx.Done():
				return redishold.Result{Err: ctx.Err()}
			case <-release:
				return redishold.Result{Value: firstKey(call)}
			}
		}
		f := &interruptibleSender{}
		f.plan = map[string]func(context.Context, *redishold.Call) redishold.Result{"a": hang, "b": hang, "c": hang}
		c := NewCombiner(f)
		results := map[string]redishold.Result{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		cancels := map[string]context.CancelFunc{}
		for _, key := range []string{"a", "b", "c"} {
			parent, cancel := context.WithCancel(context.Background())
			defer cancel()
			cancels[key] = cancel
			wg.Go(func() {
				r := c.DoOne(deadline.New(parent, time.Now().Add(time.Hour)), callFor(key))
				mu.Lock()
				results[key] = r
				mu.Unlock()
			})
			synctest.Wait()
		}
		cancels["b"]()
		synctest.Wait()
		mu.Lock()
		if r, returned := results["b"]; !returned || !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, driver.ErrNotExecuted) {
			t.Errorf("the caller that gave up: returned %v with error %v, want context.Canceled, and not that nothing was sent", returned, r.Err)
		}
		if len(results) != 1 {
			t.Errorf("%d callers have returned, want one", len(results))
		}
		mu.Unlock()
		close(release)
		wg.Wait()
		for _, key := range []string{"a", "c"} {
			if r := results[key]; r.Value != key || r.Err != nil {
				t.Errorf("%s: got %v and error %v, want its answer", key, r.Value, r.Err)
			}
			cancels[key]() // after the answer
		}
		if r := c.DoOne(within(time.Hour), callFor("d")); r.Value != "d" || c.inFlight != 0 {
			t.Errorf("the next call: got %v and error %v, and %d calls in flight", r.Value, r.Err, c.inFlight)
		}
	})
}

// A script that the server does not know is sent again, with its source.
func TestInlineNoScript(t *testing.T) {
	f := &inlineSender{}
	first := true
	f.plan = map[string]func(context.Context, *redishold.Call) redishold.Result{"k": func(context.Context, *redishold.Call) redishold.Result {
		if first {
			first = false
			return redishold.Result{Err: &redishold.ReplyError{Text: "NOSCRIPT No matching script."}}
		}
		return redishold.Result{Value: "loaded"}
	}}
	c := NewCombiner(f)
	if r := c.DoOne(within(time.Hour), callFor("k")); r.Value != "loaded" || r.Err != nil {
		t.Errorf("got %v and error %v", r.Value, r.Err)
	}
	if want := []string{"k alone"}; !slices.Equal(f.calls, want) {
		t.Errorf("ran %q, want %q", f.calls, want)
	}
	f.expect(t, "k(source)")
}

// Each caller returns at its deadline, also if the server hangs: one that is alone by the
// deadline of its context, others because their context ends.
func TestInlineDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := func(ctx context.Context, _ *redishold.Call) redishold.Result {
			if at, ok := ctx.Deadline(); ok {
				time.Sleep(time.Until(at)) // as a library with a deadline on its socket
				return redishold.Result{Err: context.DeadlineExceeded}
			}
			<-ctx.Done()
			return redishold.Result{Err: ctx.Err()}
		}
		f := &inlineSender{}
		f.plan = map[string]func(context.Context, *redishold.Call) redishold.Result{"a": until, "b": until}
		c := NewCombiner(f)
		var wg sync.WaitGroup
		start := time.Now()
		for key, d := range map[string]time.Duration{"a": time.Second, "b": 2 * time.Second} {
			wg.Go(func() {
				r := c.DoOne(within(d), callFor(key))
				if !errors.Is(r.Err, context.DeadlineExceeded) || time.Since(start) != d {
					t.Errorf("%s: got error %v after %v, want that of its deadline after %v", key, r.Err, time.Since(start), d)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if r := c.DoOne(within(time.Hour), callFor("c")); r.Value != "c" {
			t.Errorf("the next call: got %v and error %v", r.Value, r.Err)
		}
	})
}

// A panic of the library reaches the caller, and other calls go on.
func TestInlinePanic(t *testing.T) {
	f := &inlineSender{}
	f.plan = map[string]func(context.Context, *redishold.Call) redishold.Result{"k": func(context.Context, *redishold.Call) redishold.Result { panic("library") }}
	c := NewCombiner(f)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		c.DoOne(within(time.Hour), callFor("k"))
	}()
	if r := c.DoOne(within(time.Hour), callFor("next")); r.Value != "next" || c.inFlight != 0 {
		t.Errorf("the next call: got %v and error %v, %d in flight", r.Value, r.Err, c.inFlight)
	}
}

// A call in the goroutine of its caller allocates nothing.
func TestInlineAllocatesNothing(t *testing.T) {
	c := NewCombiner(silentInliner{})
	ctx := within(time.Hour)
	call := callFor("a")
	if got := testing.AllocsPerRun(1000, func() { c.DoOne(ctx, call) }); got >= 1 && !raceDetector {
		t.Errorf("got %v allocations, want 0", got)
	}
}

type silentInliner struct{ silentSender }

func (silentInliner) FewCalls() int { return fewCalls }

func (silentInliner) PlanInline(int) InlinePlan { return OverOwn }

func (silentInliner) RunInline(context.Context, InlinePlan, *redishold.Call) redishold.Result {
	return redishold.Result{}
}
