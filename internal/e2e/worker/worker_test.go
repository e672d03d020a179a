package worker_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
	"github.com/holdfast-go/holdfast/internal/e2e/worker"
	"github.com/holdfast-go/holdfast/memhold"
)

// plan has the jobs of this test.
type plan struct {
	Say  []string // events
	Fail string
}

func TestMain(m *testing.M) {
	worker.Main(map[string]func(*worker.Worker) error{"say": say, "watch": watch})
	goleak.VerifyTestMain(m)
}

// say reports what the plan has, waits for the end of its input, and may fail.
func say(w *worker.Worker) error {
	var p plan
	if err := w.Plan(&p); err != nil {
		return err
	}
	for _, what := range p.Say {
		w.Log.Write(judge.Event{What: what})
	}
	ctx, cancel := w.UntilStopped(time.Minute)
	defer cancel()
	<-ctx.Done()
	if p.Fail != "" {
		return errors.New(p.Fail)
	}
	return nil
}

// watch reports when it did not run.
func watch(w *worker.Worker) error {
	ctx, cancel := w.UntilStopped(time.Minute)
	defer cancel()
	wait := worker.Watch(ctx, func(s judge.Span) {
		w.Log.Write(judge.Event{At: s.To, What: judge.Stalled, Op: -1, Left: int64(s.Duration())})
	})
	w.Log.Write(judge.Event{What: "begun"})
	wait()
	return nil
}

// whats returns what the events say.
func whats(events []judge.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.What)
	}
	return all
}

// A worker has its plan, its events can be waited for one after the other, and it says how it
// ended.
func TestWorker(t *testing.T) {
	const soon = 30 * time.Second
	w, err := worker.Start(3, "say", plan{Say: []string{"a", "b", "c", "b"}, Fail: "no more"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	for _, want := range [][]string{{"a", "b"}, {"c", "b"}} {
		got, err := w.Until("b", soon)
		if err != nil || !slices.Equal(whats(got), want) {
			t.Errorf("got %v and error %v, want %q", got, err, want)
		}
		if err == nil && got[0].Process != 3 {
			t.Errorf("got process %d, want 3", got[0].Process)
		}
	}
	if _, err := w.Until("b", 0); err == nil || !strings.Contains(err.Error(), "within") {
		t.Errorf("a third b: got error %v", err)
	}
	w.Stop()
	if _, err := w.Until("b", soon); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf("after the end: got error %v, want that of the job", err)
	}
	if got := whats(w.Events()); len(got) != 4 {
		t.Errorf("got %q, want all four events", got)
	}
}

// A worker notices that it was stopped, and for how long.
func TestWatch(t *testing.T) {
	const soon = 30 * time.Second
	w, err := worker.Start(0, "watch", plan{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kill)
	if _, err := w.Until("begun", soon); err != nil {
		t.Fatal(err)
	}
	w.Pause()
	from := time.Now()
	<-time.After(20 * time.Millisecond)
	stopped := time.Since(from)
	w.Resume()
	for longest := time.Duration(0); longest < stopped-5*time.Millisecond; { // less than a tick
		got, err := w.Until(judge.Stalled, soon)
		if err != nil {
			t.Fatalf("it was stopped for %v: %v", stopped, err)
		}
		longest = time.Duration(got[len(got)-1].Left)
	}
	w.Stop()
	<-w.Done()
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

func TestUnknownJob(t *testing.T) {
	cmd, err := worker.Command(t.Context(), "sing", plan{})
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if out, err := cmd.Output(); !errors.As(err, &exit) || !strings.Contains(string(exit.Stderr), `unknown job "sing"`) {
		t.Errorf("got %q and error %v", out, err)
	}
}

// Each kind keeps its rival out, and a call of its own is one of its side.
func TestKinds(t *testing.T) {
	l := holdfast.New(memhold.New(), nil)
	for _, k := range []worker.Kind{worker.Mutex, worker.Fair, worker.Reader, worker.Writer, worker.Permit} {
		t.Run(string(k), func(t *testing.T) {
			name, ctx := string(k), await.Context(t, 10*time.Second)
			r := k.Request(l, name, 1)
			if r.Name != name || r.Side != k.Side() || r.Side.Alone() != (k == worker.Mutex || k == worker.Fair || k == worker.Writer) {
				t.Errorf("got %+v", r)
			}
			lock, err := r.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, try := k.Rival().Calls(l, name, 1)
			if _, err := try(ctx); !errors.Is(err, holdfast.ErrBusy) {
				t.Errorf("the rival %s: got error %v, want ErrBusy", k.Rival(), err)
			}
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
			next, err := try(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}
