package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/unsent"
	"github.com/holdfast-go/holdfast/redishold"
)

// fakeSender answers a call with its first key, after what is planned for that.
type fakeSender struct {
	plan map[string]func(ctx context.Context, call *redishold.Call) redishold.Result

	mu    sync.Mutex
	trips []string // the keys of each pipeline
}

func (f *fakeSender) Send(ctx context.Context, _ Destination, calls []*redishold.Call, results []redishold.Result) {
	var trip []string
	for _, call := range calls {
		name := firstKey(call)
		if call.Source {
			name += "(source)"
		}
		trip = append(trip, name)
	}
	f.mu.Lock()
	f.trips = append(f.trips, strings.Join(trip, " "))
	f.mu.Unlock()
	for i, call := range calls {
		if do := f.plan[firstKey(call)]; do != nil {
			results[i] = do(ctx, call)
		} else {
			results[i].Value = firstKey(call)
		}
	}
}

func (f *fakeSender) expect(t *testing.T, want ...string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.trips, want) {
		t.Errorf("got pipelines %q, want %q", f.trips, want)
	}
}

// hang answers after a minute.
func hang(_ context.Context, call *redishold.Call) redishold.Result {
	time.Sleep(time.Minute)
	return redishold.Result{Value: firstKey(call)}
}

// What remains is what the library and the caller allocate. The race detector
// makes pools forget.
func TestCombiningAllocatesNothing(t *testing.T) {
	c := NewCombiner(silentSender{})
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := deadline.New(parent, time.Now().Add(time.Hour))
	call := callFor("a")
	if got := testing.AllocsPerRun(1000, func() { c.DoOne(ctx, call) }); got >= 1 && !raceDetector {
		t.Errorf("got %v allocations, want 0", got)
	}
	if got := testing.AllocsPerRun(1000, func() { c.Begin(ctx, call)() }); got >= 1 && !raceDetector {
		t.Errorf("Begin: got %v allocations, want 0", got)
	}
}

// silentSender leaves all results zero, which are valid replies.
type silentSender struct{}

func (silentSender) Send(context.Context, Destination, []*redishold.Call, []redishold.Result) {}

func callFor(key string) *redishold.Call { return &redishold.Call{Keys: []string{key}} }

// pause keeps the queue of c from its leaders until resume.
func (c *Combiner) pause() { c.collecting = true }

func (c *Combiner) resume() { go c.lead() }

func TestEveryCallerGetsItsAnswer(t *testing.T) {
	c := NewCombiner(&fakeSender{})
	var done sync.WaitGroup
	for i := range 50 {
		done.Go(func() {
			for j := range 200 {
				key := fmt.Sprint(i, "/", j)
				if r := c.DoOne(t.Context(), callFor(key)); r.Value != key || r.Err != nil {
					t.Errorf("got %v, error %v, want %v", r.Value, r.Err, key)
				}
			}
		})
	}
	done.Wait()
}

// What is queued leaves in order, a half of all that are on their way at a time.
func TestCallsTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{"a": hang, "e": hang}}
		c := NewCombiner(f)
		c.pause()
		var finish []func() redishold.Result
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			finish = append(finish, c.Begin(t.Context(), callFor(key)))
		}
		c.run()
		for i, want := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			if r := finish[i](); r.Value != want || r.Err != nil {
				t.Errorf("got %v, error %v, want %v", r.Value, r.Err, want)
			}
		}
		slices.Sort(f.trips) // they are under way at the same time
		f.expect(t, "a b c d", "e f g")
	})
}

func TestNoPipelineIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSender{}
		c := NewCombiner(f)
		c.pause()
		for range 3 * maxBatch {
			finish := c.Begin(t.Context(), callFor("k"))
			defer finish()
		}
		c.resume()
		synctest.Wait()
		n := 0
		for _, trip := range f.trips {
			keys := len(strings.Fields(trip))
			if n += keys; keys > maxBatch {
				t.Errorf("a pipeline has %d calls", keys)
			}
		}
		if n != 3*maxBatch {
			t.Errorf("%d calls were sent, want %d", n, 3*maxBatch)
		}
	})
}

// contexts are the ways in which a caller can bound a call to one second.
var contexts = []struct {
	name string
	make func(context.Context) (context.Context, context.CancelFunc)
	want error
}{
	{"timeout", func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	}, context.DeadlineExceeded},
	{"cancel", func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	}, context.Canceled},
	{"deadline.Context", func(ctx context.Context) (context.Context, context.CancelFunc) {
		d := deadline.New(ctx, time.Now().Add(time.Second))
		return d, d.End
	}, context.DeadlineExceeded},
	{"parent of a deadline.Context", func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return deadline.New(ctx, time.Now().Add(time.Hour)), cancel
	}, context.Canceled},
	{"deadline of the parent of a deadline.Context", func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		return deadline.New(ctx, time.Now().Add(time.Hour)), cancel
	}, context.DeadlineExceeded},
}

func TestContextEndsCallUnderWay(t *testing.T) {
	for _, how := range contexts {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{"a": hang}}
				c := NewCombiner(f)
				ctx, cancel := how.make(t.Context())
				defer cancel()
				start := time.Now()
				r := c.DoOne(ctx, callFor("a"))
				if !errors.Is(r.Err, how.want) || errors.Is(r.Err, driver.ErrNotExecuted) || time.Since(start) != time.Second {
					t.Errorf("got error %v after %v, want %v after 1s, outcome unknown", r.Err, time.Since(start), how.want)
				}
				if r := c.DoOne(t.Context(), callFor("b")); r.Value != "b" || time.Since(start) != time.Second {
					t.Errorf("beside a call that hangs: got %v, error %v after %v", r.Value, r.Err, time.Since(start))
				}
				time.Sleep(time.Hour) // all that was started ends
			})
		})
	}
}

func TestContextEndsCallInTheQueue(t *testing.T) {
	for _, how := range contexts {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeSender{}
				c := NewCombiner(f)
				c.pause()
				ctx, cancel := how.make(t.Context())
				defer cancel()
				start := time.Now()
				r := c.DoOne(ctx, callFor("a"))
				if !errors.Is(r.Err, how.want) || !errors.Is(r.Err, driver.ErrNotExecuted) || time.Since(start) != time.Second {
					t.Errorf("got error %v after %v, want %v after 1s, not sent", r.Err, time.Since(start), how.want)
				}
				b := c.Begin(t.Context(), callFor("b"))
				c.resume()
				if r := b(); r.Value != "b" {
					t.Errorf("got %v, error %v, want b", r.Value, r.Err)
				}
				f.expect(t, "b")
				time.Sleep(time.Hour)
			})
		})
	}
}

// One timer serves deadlines that come in any order.
func TestEveryCallHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{"a": hang}}
		c := NewCombiner(f)
		var done sync.WaitGroup
		for _, seconds := range []int{3, 1, 5, 2, 4, 2} {
			for _, key := range []string{"a", "b"} {
				done.Go(func() {
					limit := time.Duration(seconds) * time.Second
					start := time.Now()
					r := c.DoOne(deadline.New(t.Context(), start.Add(limit)), callFor(key))
					switch {
					case key == "a" && (!errors.Is(r.Err, context.DeadlineExceeded) || time.Since(start) != limit):
						t.Errorf("limit %v: got error %v after %v", limit, r.Err, time.Since(start))
					case key == "b" && r.Err == nil && time.Since(start) != 0 && time.Since(start) < limit:
						t.Errorf("got an answer after %v", time.Since(start))
					}
				})
				synctest.Wait()
			}
		}
		done.Wait()
		if time.Sleep(time.Minute); !c.alarm.at.IsZero() {
			t.Error("the alarm is set though there are no calls")
		}
	})
}

func TestAnswerIsWorthMoreThanTheEndOfAContext(t *testing.T) {
	for range 50 { // a select picks at random
		ctx, cancel := context.WithCancel(t.Context())
		c := NewCombiner(&fakeSender{})
		c.pause()
		finish := c.Begin(ctx, callFor("a"))
		c.run()
		cancel()
		if r := finish(); r.Value != "a" {
			t.Fatalf("got %v, error %v, want a", r.Value, r.Err)
		}
	}
}

// An error of the library's, at the end of the caller's context, reports both.
func TestErrorTellsOfTheEndToo(t *testing.T) {
	for _, c := range []struct {
		err error
		is  []error
	}{
		{io.EOF, []error{io.EOF, context.Canceled}},
		{unsent.Error(io.EOF), []error{io.EOF, context.Canceled, driver.ErrNotExecuted}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cb := NewCombiner(&fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
			"a": func(context.Context, *redishold.Call) redishold.Result { return redishold.Result{Err: c.err} },
		}})
		cb.pause()
		finish := cb.Begin(ctx, callFor("a"))
		cb.run() // the error is there first
		cancel()
		got := finish().Err
		for _, want := range c.is {
			if !errors.Is(got, want) {
				t.Errorf("got error %v, want one that is %v", got, want)
			}
		}
	}
}

func TestUnknownScriptInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unknown := func(_ context.Context, call *redishold.Call) redishold.Result {
			if !call.Source {
				return redishold.Result{Err: &redishold.ReplyError{Text: "NOSCRIPT No matching script."}}
			}
			time.Sleep(time.Second)
			return redishold.Result{Value: firstKey(call)}
		}
		f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
			"b": unknown, "d": unknown,
			"e": func(context.Context, *redishold.Call) redishold.Result {
				return redishold.Result{Err: &redishold.ReplyError{Text: "NOSCRIPT whatever"}} // though it was sent as source
			},
		}}
		c := NewCombiner(f)
		c.pause()
		var finish []func() redishold.Result
		for _, key := range []string{"a", "b", "c", "d", "e", "1", "2", "3", "4"} {
			finish = append(finish, c.Begin(t.Context(), callFor(key)))
		}
		start := time.Now()
		c.resume()
		for i, want := range []struct {
			value any
			after time.Duration
		}{{"a", 0}, {"b", 2 * time.Second}, {"c", 2 * time.Second}, {"d", 2 * time.Second}, {nil, 2 * time.Second}} {
			if r := finish[i](); r.Value != want.value || time.Since(start) != want.after {
				t.Errorf("call %d: got %v, error %v after %v, want %v after %v", i, r.Value, r.Err, time.Since(start), want.value, want.after)
			}
		}
		for _, f := range finish[5:] {
			f()
		}
		slices.Sort(f.trips)
		f.trips = []string{f.trips[0], f.trips[1], strings.Join(f.trips[2:], " ")} // one or two pipelines have the sources
		f.expect(t, "1 2 3 4", "a b c d e", "b(source) d(source) e(source)")
	})
}

// A request whose caller has left is not reused before the library has returned.
func TestAbandonedCallIsNotTouchedWhileTheLibraryHasIt(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
				"a": func(_ context.Context, call *redishold.Call) redishold.Result {
					time.Sleep(time.Minute)
					if call.Keys[0] != "a" {
						t.Errorf("the call has become another: %v", call.Keys)
					}
					return redishold.Result{Value: "late"}
				},
			}}
			c := NewCombiner(f)
			var ctx context.Context = deadline.New(t.Context(), time.Now().Add(time.Second))
			if !lazy {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
			}
			for range 20 {
				go c.DoOne(ctx, callFor("a"))
			}
			for range 100 {
				time.Sleep(time.Second)
				if r := c.DoOne(t.Context(), callFor("b")); r.Value != "b" {
					t.Errorf("got %v, error %v, want b", r.Value, r.Err)
				}
			}
			time.Sleep(time.Hour)
		})
	}
}

// The context of Send ends when no caller waits any more, and not before.
func TestLibraryLearnsThatNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
			"a": func(ctx context.Context, _ *redishold.Call) redishold.Result {
				if ctx.Err() != nil {
					t.Errorf("got error %v at once", ctx.Err())
				}
				<-ctx.Done()
				if took := time.Since(start); took != 2*time.Second || !errors.Is(ctx.Err(), context.Canceled) {
					t.Errorf("Send's context ended after %v with %v, want 2s and Canceled", took, ctx.Err())
				}
				return redishold.Result{Err: ctx.Err()}
			},
		}}
		c := NewCombiner(f)
		c.pause()
		one, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := c.Begin(one, callFor("a"))
		b := c.Begin(deadline.New(t.Context(), time.Now().Add(2*time.Second)), callFor("b"))
		x := c.Begin(t.Context(), callFor("x")) // the other half
		y := c.Begin(t.Context(), callFor("y"))
		c.resume()
		for _, finish := range []func() redishold.Result{a, b, x, y} {
			finish()
		}
		synctest.Wait()
		for range 10 { // what has ended does not end the next pipeline
			start = time.Now()
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			c.DoOne(ctx, callFor("a"))
			stop()
			synctest.Wait()
		}
	})
}

func TestLibraryEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
			"a": func(context.Context, *redishold.Call) redishold.Result { runtime.Goexit(); panic("unreachable") },
		}}
		c := NewCombiner(f)
		for range 3 {
			if r := c.DoOne(t.Context(), callFor("a")); !errors.Is(r.Err, errEnded) || errors.Is(r.Err, driver.ErrNotExecuted) {
				t.Errorf("got %v, error %v, want %v", r.Value, r.Err, errEnded)
			}
			if r := c.DoOne(t.Context(), callFor("b")); r.Value != "b" {
				t.Errorf("after it: got %v, error %v, want b", r.Value, r.Err)
			}
		}
	})
}

// A panic of the library's ends the program, as it would without a Combiner.
func TestPanicIsNotSwallowed(t *testing.T) {
	const env = "HOLDFAST_TEST_PANIC"
	if os.Getenv(env) != "" {
		c := NewCombiner(&fakeSender{plan: map[string]func(context.Context, *redishold.Call) redishold.Result{
			"a": func(context.Context, *redishold.Call) redishold.Result { panic("the library's own") },
		}})
		c.DoOne(context.Background(), callFor("a"))
		time.Sleep(10 * time.Second) // the panic, in another goroutine, ends the program first
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicIsNotSwallowed$")
	cmd.Env = append(os.Environ(), env+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: the library's own") {
		t.Errorf("got error %v and this output, want a panic:\n%s", err, out)
	}
}

func TestNoLeaderStaysBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCombiner(&fakeSender{})
		for range 100 {
			c.DoOne(t.Context(), callFor("a"))
		}
		synctest.Wait()
		if c.collecting || c.inFlight != 0 || len(c.sent) != 0 || len(c.queue) != 0 {
			t.Errorf("got %+v, want nothing under way", c)
		}
	}) // which fails if a goroutine is left
}
