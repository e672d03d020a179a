package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
)

var (
	_ redishold.Conn            = (*Conn)(nil)
	_ redishold.Single          = (*Conn)(nil)
	_ redishold.Beginner        = (*Conn)(nil)
	_ redishold.ListenerCounter = (*Conn)(nil)
)

// ways are the three in which one call can be made.
var ways = map[string]func(*Conn, context.Context, *redishold.Call) redishold.Result{
	"Do": func(r *Conn, ctx context.Context, call *redishold.Call) redishold.Result {
		return r.Do(ctx, *call)[0]
	},
	"DoOne": func(r *Conn, ctx context.Context, call *redishold.Call) redishold.Result {
		return r.DoOne(ctx, call)
	},
	"Begin": func(r *Conn, ctx context.Context, call *redishold.Call) redishold.Result {
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
			{false, 0, "pipeline a1"},
			{false, 1, "pipeline a1"},
		} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{single: c.single}
				r := do(newConnTo(f), t.Context(), &redishold.Call{Keys: []string{"a1"}, Replicas: c.replicas})
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
				r := do(newConnTo(&fakeCluster{single: single, hang: "a:1"}), ctx, callFor("a1"))
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
	newConnTo(f).Do(t.Context(), callsFor(0, "a1", "b2")...)
	f.expect(t, 0, "pipeline a1 b2")
}

// A client that is closed is asked nothing, and neither is one for a call that is
// over.
func TestRefused(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range ways {
		for _, single := range []bool{true, false} {
			f := &fakeCluster{single: single, refuse: io.EOF}
			if r := do(newConnTo(f), t.Context(), callFor("a1")); !errors.Is(r.Err, io.EOF) {
				t.Errorf("%s: got error %v, want EOF", name, r.Err)
			}
			f.refuse = nil
			if r := do(newConnTo(f), over, callFor("a1")); !errors.Is(r.Err, driver.ErrNotExecuted) || !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%s: got error %v, want ErrNotExecuted and Canceled", name, r.Err)
			}
			f.expect(t, 0)
		}
	}
}

// observing is a client that adds text to errors.
type observing struct {
	*fakeCluster
	observed []redishold.Result
}

func (n *observing) Notice(_ context.Context, results []redishold.Result) {
	n.observed = slices.Clone(results)
	results[0].Err = fmt.Errorf("observed: %w", results[0].Err)
}

func TestErrorsAreObserved(t *testing.T) {
	for _, way := range []string{"Do", "DoOne", "Begin"} {
		for _, replicas := range []int{0, 1} {
			n := &observing{fakeCluster: &fakeCluster{single: true, fail: io.EOF}}
			r := ways[way](newConnTo(n), t.Context(), &redishold.Call{Keys: []string{"a1"}, Replicas: replicas})
			if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "observed: ") {
				t.Errorf("%s, replicas %d: got error %v, want the one with more text", way, replicas, r.Err)
			}
			if len(n.observed) != 1 || !errors.Is(n.observed[0].Err, io.EOF) {
				t.Errorf("%s, replicas %d: got %v, want EOF", way, replicas, n.observed)
			}
		}
	}
}

// closing is a client that the program has closed.
type closing struct {
	*fakeCluster
	*End
}

func (c *closing) Refuse() error { return c.End.Refuse() }

func (c *closing) Notice(ctx context.Context, results []redishold.Result) { c.End.Notice(ctx, results) }

// However a call is made that a closed client answers, later ones are refused.
func TestClosedClientIsNoticed(t *testing.T) {
	ask := func(c *Conn, ctx context.Context, _ *redishold.Call) redishold.Result {
		_, err := c.Server(ctx)
		return redishold.Result{Err: err}
	}
	for name, do := range map[string]func(*Conn, context.Context, *redishold.Call) redishold.Result{
		"Do": ways["Do"], "DoOne": ways["DoOne"], "Begin": ways["Begin"], "Server": ask,
	} {
		for _, single := range []bool{true, false} {
			f := &fakeCluster{single: single, fail: errClosed}
			c := newConnTo(&closing{f, &End{Closed: errClosed, Server: f.Ask}})
			do(c, t.Context(), callFor("a1"))
			if r := do(c, t.Context(), callFor("a1")); !errors.Is(r.Err, driver.ErrClosed) {
				t.Errorf("%s, single %v: got error %v, want ErrClosed", name, single, r.Err)
			}
			if _, err := c.Servers(t.Context()); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("%s, single %v: Servers: got error %v, want ErrClosed", name, single, err)
			}
			if _, err := c.Subscribe(t.Context(), redishold.Channel{}, ignore); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("%s, single %v: Subscribe: got error %v, want ErrClosed", name, single, err)
			}
		}
	}
}

func TestQuestionsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, err := newConnTo(&slow{&fakeCluster{}}).Servers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if r := servers["a:1"](ctx, "PING"); !errors.Is(r.Err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got error %v after %v, want DeadlineExceeded after 1s", r.Err, time.Since(start))
		}
		if r := servers["a:1"](ctx, "PING"); !errors.Is(r.Err, driver.ErrNotExecuted) {
			t.Errorf("got error %v of a question that was too late, want ErrNotExecuted", r.Err)
		}
		time.Sleep(time.Minute)
	})
}

// slow is a client whose servers take their time.
type slow struct{ *fakeCluster }

func (s *slow) Servers(context.Context) (map[string]Question, error) {
	return map[string]Question{"a:1": func(context.Context, ...string) redishold.Result {
		time.Sleep(time.Minute)
		return redishold.Result{}
	}}, nil
}
