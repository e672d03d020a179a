package adapter

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// ways are the three in which one call can be made.
var ways = map[string]func(*Runner, context.Context, *redishold.Call) redishold.Result{
	"Do": func(r *Runner, ctx context.Context, call *redishold.Call) redishold.Result {
		return r.Do(ctx, []redishold.Call{*call})[0]
	},
	"DoOne": func(r *Runner, ctx context.Context, call *redishold.Call) redishold.Result {
		return r.DoOne(ctx, call)
	},
	"Begin": func(r *Runner, ctx context.Context, call *redishold.Call) redishold.Result {
		finish := r.Begin(ctx, call)
		*call = redishold.Call{} // it is not kept
		return finish()
	},
}

func TestOneCall(t *testing.T) {
	for name, do := range ways {
		for _, c := range []struct {
			single   bool
			replicas int
			want     string
		}{
			{true, 0, "send a1"},
			{true, 1, "pipeline a1"},
			{false, 0, "one a1"},
			{false, 1, "at a:1 a1"},
		} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{single: c.single}
				r := do(NewRunner(f), t.Context(), &redishold.Call{Keys: []string{"a1"}, Replicas: c.replicas})
				if r.Value != "a:1" || r.Err != nil {
					t.Errorf("%s %+v: got %v, error %v, want a:1", name, c, r.Value, r.Err)
				}
				f.expect(t, 0, c.want)
			})
		}
	}
}

func TestOneCallEndsWithItsContext(t *testing.T) {
	for name, do := range ways {
		for _, single := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				r := do(NewRunner(&fakeCluster{single: single, hang: "a:1"}), ctx, callFor("a1"))
				if !errors.Is(r.Err, context.DeadlineExceeded) || time.Since(start) != time.Second {
					t.Errorf("%s, single %v: got error %v after %v, want DeadlineExceeded after 1s", name, single, r.Err, time.Since(start))
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

func TestSeveralCallsAreNotCombined(t *testing.T) {
	f := &fakeCluster{single: true}
	NewRunner(f).Do(t.Context(), callsFor(0, "a1", "b2"))
	f.expect(t, 0, "pipeline a1 b2")
}

func TestRefused(t *testing.T) {
	if r := Refused(io.EOF)(); !errors.Is(r.Err, io.EOF) {
		t.Errorf("got error %v, want EOF", r.Err)
	}
}
