package jobtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
)

// durationVar is for how long TestTicks counts runs, in place of fourteen seconds.
const durationVar = "HOLDFAST_TICKS"

func TestMain(m *testing.M) {
	if text := os.Getenv(candidateVar); text != "" {
		c := &candidate{}
		err := json.Unmarshal([]byte(text), c)
		fmt.Fprintln(os.Stderr, errors.Join(err, c.main()))
		os.Exit(1)
	}
	if text := os.Getenv(processVar); text != "" {
		p := &process{}
		err := json.Unmarshal([]byte(text), p)
		fmt.Fprintln(os.Stderr, errors.Join(err, p.main()))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}

const (
	period = 2 * time.Second
	least  = 1500 * time.Millisecond
	// spread is more than the clocks differ by.
	spread = time.Second
	// stall is for how long a machine may stand still.
	stall = 2 * time.Second
	// inTime is within which time a call ends that was neither begun late nor answered late.
	inTime = 250 * time.Millisecond
)

// behind is how far the clocks of the processes are behind that of the test.
func behind() []time.Duration {
	return []time.Duration{0, 400 * time.Millisecond, 900 * time.Millisecond}
}

// cells returns all cells over some stores.
func cells(stores []string) (all []cell) {
	for _, store := range stores {
		for host := range hosts() {
			all = append(all, cell{store, host, crash, period, least})
			every, least := period, least
			if store == anystore.Etcd().Name { // which rounds up
				every, least = 5*every, 8*time.Second
			}
			all = append(all, cell{store, host, kept, every, least}, cell{store, host, free, every, least})
		}
	}
	return all
}

// Three processes, whose clocks differ by less than AtLeast, run each job once per tick, in
// every scheduler and on every store that keeps names; without AtLeast more often. A process
// that is killed while it works delays the next run by a TTL and a period at most. A machine
// that stands still may cost a tick, but never brings two runs nearer than AtLeast.
func TestTicks(t *testing.T) {
	t.Parallel()
	count := 14 * time.Second
	if text := os.Getenv(durationVar); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		count = d
	}
	addrs := start(t)
	all := cells(slices.Sorted(maps.Keys(addrs)))
	w := startWorkers(t, addrs, all)
	time.Sleep(time.Until(w.first.Add(count - period/4)))
	w.kill(t, all)
	judged, due := 0, 0
	for _, c := range all {
		if c.Mode != crash {
			n, of := w.judge(t, c, int((count-period/4-spread)/c.Every)+1)
			judged, due = judged+n, due+of
		}
	}
	if judged == 0 { // the gaps were judged nevertheless
		t.Errorf("none of %d ticks was in time", due)
	}
}

// start starts the servers, and returns their addresses.
func start(t *testing.T) map[string]string {
	t.Helper()
	redis := redistest.Start(t).Addr()
	addrs := map[string]string{"redisson": redis, "plain": redis}
	for _, k := range []*anystore.Kind{anystore.PostgreSQL(), anystore.Etcd()} {
		s, err := k.Run(t.TempDir())
		if errors.Is(err, anystore.ErrMissing) && os.Getenv("CI") == "" {
			t.Logf("without %s: %v", k.Name, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		addrs[k.Name] = s.Addr
	}
	return addrs
}

// workers is the processes, and their calls.
type workers struct {
	first time.Time // tick
	cmds  []*exec.Cmd

	mu    sync.Mutex
	calls map[string][]call // by cell
}

// startWorkers starts the processes, which begin together.
func startWorkers(t *testing.T, addrs map[string]string, all []cell) *workers {
	t.Helper()
	w := &workers{calls: map[string][]call{}}
	var readers sync.WaitGroup
	t.Cleanup(readers.Wait) // after StartProgram has closed what they read
	var inputs []io.Writer
	var outputs []*bufio.Reader
	for n, by := range behind() {
		env, err := json.Marshal(&process{Number: n, Behind: by, Addrs: addrs, Cells: all})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), processVar+"="+string(env))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, sessiontest.StartProgram(t, cmd))
		w.cmds, inputs = append(w.cmds, cmd), append(inputs, in)
	}
	for _, out := range outputs {
		if said, err := out.ReadString('\n'); said != "ready\n" {
			t.Fatalf("got %q, %v, want that it is ready", said, err)
		}
	}
	w.first = time.Now().Add(time.Second)
	for n, out := range outputs {
		if err := json.NewEncoder(inputs[n]).Encode(w.first); err != nil {
			t.Fatal(err)
		}
		readers.Go(func() { w.read(t, n, out) })
	}
	return w
}

// read collects what a process reports.
func (w *workers) read(t *testing.T, n int, out *bufio.Reader) {
	for {
		line, err := out.ReadBytes('\n')
		if err != nil {
			return
		}
		var c call
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &c) != nil {
			t.Logf("process %d: %s", n, line)
			continue
		}
		w.mu.Lock()
		w.calls[c.Cell] = append(w.calls[c.Cell], c)
		w.mu.Unlock()
	}
}

// runs returns the calls of a cell that ran the job, at some time or later.
func (w *workers) runs(cell string, from time.Time) []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls[cell]), func(c call) bool { return !c.Ran || c.Ended.Before(from) })
}

// kill kills the process that works in most cells, and waits for the next run of each.
func (w *workers) kill(t *testing.T, all []cell) {
	t.Helper()
	works, victim := make([][]string, len(w.cmds)), 0 // by process
	for _, c := range all {
		runs := w.runs(c.String(), w.first)
		if c.Mode != crash || len(runs) == 0 {
			continue
		}
		n := runs[len(runs)-1].Process
		if works[n] = append(works[n], c.String()); len(works[n]) > len(works[victim]) {
			victim = n
		}
	}
	if len(works[victim]) == 0 {
		t.Fatal("no process was at work")
	}
	watch, killed := await.NewWatch(t), time.Now()
	_ = w.cmds[victim].Process.Kill()
	var longest time.Duration
	for _, name := range works[victim] {
		var next []call
		if !await.Eventually(time.Minute, func() bool { next = w.runs(name, killed); return len(next) > 0 }) {
			t.Fatalf("%s: no run in a minute after the process was killed", name)
		}
		longest = max(longest, next[0].Ended.Sub(killed))
	}
	t.Logf("process %d was killed in %d jobs: the next runs are %v after that at most", victim, len(works[victim]), longest)
	if most := ttl + period + stall + watch.Late(); longest > most {
		t.Errorf("the next run is %v after its process was killed, want %v at most", longest, most)
	}
}

// judge looks at the first ticks of a cell, and returns how many of them were in time.
func (w *workers) judge(t *testing.T, c cell, due int) (judged, of int) {
	t.Helper()
	w.mu.Lock()
	calls := w.calls[c.String()]
	w.mu.Unlock()
	runs, punctual := make([]int, due+1), make([]int, due+1) // by tick: the first has none before
	punctual[0] = len(w.cmds)
	for _, call := range calls {
		at := call.Called.Sub(w.first.Add(behind()[call.Process]))
		tick := int((at + inTime/5) / c.Every) // a timer may be early by a little
		if tick >= due {
			continue
		}
		if call.Ended.Sub(w.first.Add(behind()[call.Process]+time.Duration(tick)*c.Every)) < inTime {
			punctual[tick+1]++
		}
		if call.Ran {
			runs[tick+1]++
		}
	}
	total, all := 0, 0
	for tick := range due {
		all += runs[tick+1]
		if punctual[tick] < len(w.cmds) || punctual[tick+1] < len(w.cmds) {
			continue
		}
		judged, total = judged+1, total+runs[tick+1]
		if c.Mode == kept && runs[tick+1] != 1 {
			t.Errorf("%s: %d runs at tick %d, want 1: %v", c, runs[tick+1], tick, calls)
		}
	}
	if c.Mode == free && judged > 0 && total <= judged {
		t.Errorf("%s: without AtLeast %d runs in %d ticks, want more", c, total, judged)
	}
	gap := w.smallestGap(c)
	if c.Mode == kept && gap < c.AtLeast {
		t.Errorf("%s: two runs within %v, want %v at least: %v", c, gap, c.AtLeast, calls)
	}
	t.Logf("%-24s %3d runs in %2d ticks, %3d in the %2d that were in time; the smallest gap is %v", c, all, due, total, judged, gap.Round(time.Millisecond))
	return judged, due
}

// smallestGap returns the time between the nearest two runs: from the call of the one to the
// start of the other, so that a process which stood still in between is not to blame.
func (w *workers) smallestGap(c cell) time.Duration {
	runs, smallest := w.runs(c.String(), w.first), time.Hour
	for i, a := range runs {
		for _, b := range runs[:i] {
			smallest = min(smallest, max(a.Ended.Sub(b.Called), b.Ended.Sub(a.Called)))
		}
	}
	return smallest
}
