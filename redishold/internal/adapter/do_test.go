package adapter

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold"
)

// fakeCluster is a client of a cluster in which a key lives on the node whose
// name it begins with: "a1" on "a:1". Calls answer with what happened to them.
type fakeCluster struct {
	Router // of channels, which no test here has

	single  bool              // it is no cluster
	refuse  error             // why it takes no calls
	hang    string            // the node that answers after silence
	silence time.Duration     // 0: a minute
	fail    error             // what all nodes answer instead of a value
	moved   map[string]string // where the nodes say that a key is: "MOVED 1 b:1"

	mu         sync.Mutex
	log        []string // "pipeline a:1 a1 a2"
	suspicions int
	changed    chan struct{}     // what Changed returns
	heirs      map[string]string // home by the former home
}

// newConnTo returns a Conn over a fakeCluster, or over what has one in it.
func newConnTo(c interface {
	Client
	isSingle() bool
	Cluster
},
) *Conn {
	if c.isSingle() {
		return New(c, Dial(nil), 0)
	}
	return New(c, c, 0)
}

func (f *fakeCluster) isSingle() bool                             { return f.single }
func (f *fakeCluster) Refuse() error                              { return f.refuse }
func (f *fakeCluster) Notice(context.Context, []redishold.Result) {}

func (f *fakeCluster) Ask(context.Context, ...string) redishold.Result {
	return redishold.Result{Err: f.fail}
}

func (f *fakeCluster) Servers(context.Context) (map[string]Question, error) {
	return map[string]Question{"a:1": f.Ask}, f.fail
}

func (f *fakeCluster) note(line string, calls []*redishold.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, call := range calls {
		line += " " + firstKey(call)
		if call.Source {
			line += "(source)"
		}
	}
	f.log = append(f.log, line)
}

func firstKey(call *redishold.Call) string {
	if len(call.Keys) == 0 {
		return "-"
	}
	return call.Keys[0]
}

func home(call *redishold.Call) string { return homeOf(Key(call)) }

func homeOf(key string) string {
	if key == "" || key[0] == '?' {
		return ""
	}
	return key[:1] + ":1"
}

func (f *fakeCluster) Home(_ context.Context, key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	home := homeOf(key)
	if heir, ok := f.heirs[home]; ok {
		return heir
	}
	return home
}

func (f *fakeCluster) Send(ctx context.Context, to Destination, calls []*redishold.Call, results []redishold.Result) {
	line := "pipeline"
	if _, combined := ctx.(*batchContext); combined {
		line = "send"
	}
	if to.Addr != "" {
		line = "at " + to.Addr
	}
	if to.Asking {
		line += " asking"
	}
	f.note(line, calls)
	for i, call := range calls {
		if results[i].Value = to.Addr; to.Addr == "" {
			results[i] = f.answer(call)
		}
	}
}

func (f *fakeCluster) Suspect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.suspicions++
}

func (f *fakeCluster) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// elect makes heir master in place of home.
func (f *fakeCluster) elect(home, heir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heirs = map[string]string{home: heir}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeCluster) answer(call *redishold.Call) redishold.Result {
	switch where := f.moved[firstKey(call)]; {
	case where == "NOSCRIPT" && call.Source:
		return redishold.Result{Value: home(call)}
	case where != "":
		return redishold.Result{Err: &redishold.ReplyError{Text: where}}
	case f.fail != nil:
		return redishold.Result{Err: f.fail}
	}
	if f.hang != "" && home(call) == f.hang {
		time.Sleep(cmp.Or(f.silence, time.Minute))
	}
	return redishold.Result{Value: home(call)}
}

// said returns the sorted log, and the number of calls of Suspect.
func (f *fakeCluster) said() ([]string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.log)
	return f.log, f.suspicions
}

func callsFor(replicas int, keys ...string) []redishold.Call {
	calls := make([]redishold.Call, len(keys))
	for i, key := range keys {
		calls[i].Replicas = replicas
		if key != "" {
			calls[i].Keys = []string{key}
		}
	}
	return calls
}

func (f *fakeCluster) expect(t *testing.T, suspicions int, want ...string) {
	t.Helper()
	if got, n := f.said(); !slices.Equal(got, want) || n != suspicions {
		t.Errorf("got %q and %d calls of Suspect, want %q and %d", got, n, want, suspicions)
	}
}

func TestDoOnOneServer(t *testing.T) {
	f := &fakeCluster{single: true}
	if r := newConnTo(f).Do(t.Context(), nil...); len(r) != 0 {
		t.Errorf("no calls: got %v", r)
	}
	newConnTo(f).Do(t.Context(), callsFor(0, "a1")...)
	newConnTo(f).Do(t.Context(), callsFor(1, "a2")...)
	newConnTo(f).Do(t.Context(), append(callsFor(0, "a3", "b4"), callsFor(2, "c5")...)...)
	f.expect(t, 0, "pipeline a2", "pipeline a3 b4 c5", "send a1")
}

func TestDoInACluster(t *testing.T) {
	f := &fakeCluster{}
	newConnTo(f).Do(t.Context(), callsFor(0, "a1")...)
	calls := append(callsFor(0, "a2", "b3", "", "a4", "?5", ""), callsFor(1, "a6", "b7", "a8")...)
	results := newConnTo(f).Do(t.Context(), calls...)
	f.expect(t, 0, "pipeline - -", "pipeline ?5", "pipeline a1", "pipeline a2 a4", "pipeline a6 a8", "pipeline b3", "pipeline b7")
	for i := range calls {
		if want := home(&calls[i]); results[i].Err != nil || results[i].Value != want {
			t.Errorf("call %d: got %v, error %v, want %v", i, results[i].Value, results[i].Err, want)
		}
	}
}

func TestUnknownScriptIsSentAsSource(t *testing.T) {
	f := &fakeCluster{moved: map[string]string{"a1": "NOSCRIPT", "b2": "NOSCRIPT", "b4": "NOSCRIPT"}}
	for _, r := range newConnTo(f).Do(t.Context(), append(callsFor(0, "a1", "b2", "b3"), callsFor(1, "b4")...)...) {
		if r.Err != nil {
			t.Errorf("got error %v", r.Err)
		}
	}
	f.expect(t, 0, "pipeline a1", "pipeline a1(source)", "pipeline b2 b3", "pipeline b2(source)", "pipeline b4", "pipeline b4(source)")
}

func TestHangingNodeCostsOnlyItsOwnCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{hang: "b:1"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		r := newConnTo(f).Do(ctx, append(callsFor(0, "a1", "b2", "c3"), callsFor(1, "a4", "b5")...)...)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
		for i, want := range []any{"a:1", nil, "c:1", "a:1", nil} {
			if r[i].Value != want || (want == nil) != errors.Is(r[i].Err, context.DeadlineExceeded) {
				t.Errorf("call %d: got %v, error %v, want %v", i, r[i].Value, r[i].Err, want)
			}
		}
		if _, n := f.said(); n != 1 {
			t.Errorf("Suspect was called %d times, want 1", n)
		}
		start = time.Now()
		if r := newConnTo(f).Do(t.Context(), callsFor(0, "a1", "c3")...); r[0].Err != nil || time.Since(start) != 0 {
			t.Errorf("got error %v after %v without the node that hangs", r[0].Err, time.Since(start))
		}
		time.Sleep(time.Minute) // what hangs ends by itself
	})
}

func TestWithoutAnEndEveryAnswerIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{hang: "b:1"}
		start := time.Now()
		r := newConnTo(f).Do(context.Background(), callsFor(0, "a1", "b2")...)
		if r[1].Value != "b:1" || time.Since(start) != time.Minute {
			t.Errorf("without an end: got %v after %v", r[1], time.Since(start))
		}
	})
}

func TestAnswerIsWorthMoreThanAnEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer := make(chan string, 1)
	answer <- "a"
	if v, err := last(ctx, answer); v != "a" || err != nil {
		t.Errorf("got %q, error %v, want a", v, err)
	}
	if _, err := last(ctx, answer); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v without an answer, want Canceled", err)
	}
}

func TestCallsAreRedirected(t *testing.T) {
	f := &fakeCluster{moved: map[string]string{
		"a1": "MOVED 5 b:1", "a2": "ASK 6 c:1", "a4": "MOVED 7 :2", "a5": "MOVED 8 ::1:3", "a6": "TRYAGAIN x", "a7": "MOVED 9 ?",
	}}
	r := newConnTo(f).Do(t.Context(), callsFor(1, "a1", "a2", "a3", "a4", "a5", "a6", "a7")...)
	f.expect(t, 2, "at [::1]:3 a5", "at a:2 a4", "at b:1 a1", "at c:1 asking a2", "pipeline a1 a2 a3 a4 a5 a6 a7")
	for i, want := range []any{"b:1", "c:1", "a:1", "a:2", "[::1]:3", nil, nil} {
		if r[i].Value != want || (r[i].Err != nil) != (want == nil) {
			t.Errorf("call %d: got %v, error %v, want %v", i, r[i].Value, r[i].Err, want)
		}
	}
}

// pingPong is a cluster of which every node says that the key is elsewhere.
type pingPong struct {
	fakeCluster
	asked int
}

func (p *pingPong) Send(_ context.Context, _ Destination, _ []*redishold.Call, results []redishold.Result) {
	p.asked++
	results[0].Err = &redishold.ReplyError{Text: "MOVED 1 b:1"}
}

func TestRedirectionsEnd(t *testing.T) {
	p := &pingPong{}
	r := newConnTo(p).Do(t.Context(), callsFor(1, "a1")...)
	var reply *redishold.ReplyError
	if !errors.As(r[0].Err, &reply) || p.asked != 1+maxRedirects {
		t.Errorf("got error %v after %d nodes, want MOVED after %d", r[0].Err, p.asked, 1+maxRedirects)
	}
}

func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		err  error
		want [2]int // for one call, and for calls to two nodes
	}{
		{nil, [2]int{0, 0}},
		{io.EOF, [2]int{1, 1}},
		{&redishold.ReplyError{Text: "MOVED 1 b:1"}, [2]int{1, 2}}, // each pipeline is redirected
		{&redishold.ReplyError{Text: "MOVED 1 ?"}, [2]int{1, 1}},
		{&redishold.ReplyError{Text: "READONLY You can't write"}, [2]int{1, 1}},
		{&redishold.ReplyError{Text: "CLUSTERDOWN Hash slot not served"}, [2]int{1, 1}},
		{&redishold.ReplyError{Text: "TRYAGAIN"}, [2]int{0, 0}},
		{&redishold.ReplyError{Text: "OOM"}, [2]int{0, 0}},
	} {
		for n, keys := range [][]string{{"a1"}, {"a1", "b2", "b3"}} {
			f := &fakeCluster{fail: c.err}
			newConnTo(f).Do(t.Context(), callsFor(0, keys...)...)
			if _, got := f.said(); got != c.want[n] {
				t.Errorf("%v, case %d: Suspect was called %d times, want %d", c.err, n, got, c.want[n])
			}
		}
	}
}
