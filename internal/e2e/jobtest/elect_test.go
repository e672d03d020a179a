package jobtest

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/cutofftest"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
)

// Three processes campaign; what ends a term, and when the next one begins. HOLDFAST_CUTS is how
// often a leader is cut off, in place of two times.
func TestElect(t *testing.T) {
	addrs := start(t)
	delete(addrs, "plain") // the same as redisson
	cuts := 2
	if text := os.Getenv(cutofftest.RunsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		cuts = n
	}
	for _, store := range slices.Sorted(maps.Keys(addrs)) {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			e := startCandidates(t, store, addrs[store])
			e.next(t, "at the start", nil)
			for range cuts {
				e.cutOff(t)
			}
			e.freeze(t)
			e.resign(t)
			e.force(t)
			e.kill(t)
		})
	}
}

// seat is a process and its connection to the store.
type seat struct {
	cmd   *exec.Cmd
	in    io.Writer
	proxy *faultproxy.Proxy
}

// leads is a term.
type leads struct {
	seat *seat
	report
	over chan report
}

// contest is the processes that campaign in a store.
type contest struct {
	store, addr string
	began       chan *leads
	leader      *leads
	readers     sync.WaitGroup
}

func startCandidates(t *testing.T, store, addr string) *contest {
	c := &contest{store: store, addr: addr, began: make(chan *leads, 100)}
	t.Cleanup(c.readers.Wait) // after StartProgram has closed what they read
	for range 3 {
		c.start(t)
	}
	return c
}

// start starts a candidate.
func (c *contest) start(t *testing.T) {
	proxy, err := faultproxy.RunRaw(c.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	env, err := json.Marshal(&candidate{c.store, proxy.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{cmd: exec.Command(os.Args[0]), proxy: proxy}
	s.cmd.Env = append(os.Environ(), candidateVar+"="+string(env))
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out := sessiontest.StartProgram(t, s.cmd)
	c.readers.Go(func() {
		var term *leads
		for {
			line, err := out.ReadBytes('\n')
			if err != nil {
				return
			}
			var r report
			switch err := json.Unmarshal(line, &r); {
			case err != nil || r.Result != "" && r.Result != "resigned ":
				t.Errorf("a candidate says %s", line)
			case r.Result != "":
			case r.Over:
				term.over <- r
			default:
				if r.Leads != "" {
					t.Errorf("a leader has a term, and Leading returns %s", r.Leads)
				}
				term = &leads{s, r, make(chan report, 1)}
				c.began <- term
			}
		}
	})
}

// next waits for the next term, and returns what the old leader said of the end of its own, which
// is to come before unless late is not nil: late has it come.
func (c *contest) next(t *testing.T, what string, late func()) (over report, took time.Duration) {
	t.Helper()
	at, limit, last := time.Now(), ttl+time.Second+stall, c.leader
	if c.store == "etcd" {
		limit += time.Second // which rounds up
	}
	select {
	case c.leader = <-c.began:
	case <-time.After(limit + 10*time.Second):
		t.Fatalf("%s: no leader", what)
	}
	if took = c.leader.At.Sub(at); took > limit {
		t.Errorf("%s: the next leader after %v, want %v at most", what, took, limit)
	}
	if last == nil {
		return over, took
	}
	if c.leader.Token <= last.Token {
		t.Errorf("%s: token %d after %d", what, c.leader.Token, last.Token)
	}
	if late != nil {
		late()
	}
	select {
	case over = <-last.over:
	case <-time.After(limit + 10*time.Second):
		t.Fatalf("%s: the term of the old leader is not over", what)
	}
	if late == nil && over.At.After(c.leader.At) {
		t.Errorf("%s: the old term was over %v after the next one began", what, over.At.Sub(c.leader.At))
	}
	return over, took
}

func (c *contest) cutOff(t *testing.T) {
	old := c.leader.seat
	old.proxy.Blackhole(true)
	over, took := c.next(t, "cut off", nil)
	t.Logf("cut off: over %v before the next leader, who came after %v", c.leader.At.Sub(over.At), took)
	if over.Leads == "" {
		t.Error("cut off: Leading returned nil at the end of the term")
	}
	old.proxy.Blackhole(false)
}

func (c *contest) freeze(t *testing.T) {
	old := c.leader.seat.cmd.Process
	if err := old.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var runs time.Time
	over, took := c.next(t, "frozen", func() {
		runs = time.Now()
		if err := old.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("frozen: the next leader after %v; the old term was over %v after its process ran again", took, over.At.Sub(runs))
	if over.At.Sub(runs) > stall {
		t.Error("frozen: the old leader went on")
	}
}

func (c *contest) resign(t *testing.T) {
	if _, err := c.leader.seat.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	over, _ := c.next(t, "resigned", nil)
	took := c.leader.At.Sub(over.At)
	t.Logf("resigned: the next leader after %v", took)
	if took > stall {
		t.Errorf("resigned: the next leader after %v", took)
	}
}

func (c *contest) force(t *testing.T) {
	b, shut, err := open(c.store, c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	console := admin.New(b)
	records, err := console.Get(t.Context(), election)
	if err != nil || len(records[0].Holds) != 1 {
		t.Fatalf("who leads: %+v, %v", records, err)
	}
	ctx := await.Context(t, 10*time.Second)
	if err := console.ForceUnlock(ctx, election, records[0].Holds[0].Holder, "INC-1"); err != nil {
		t.Fatal(err)
	}
	over, _ := c.next(t, "forced", func() {})
	t.Logf("forced: the old term was over %v after the next one began", over.At.Sub(c.leader.At))
	if late := over.At.Sub(c.leader.At); late > ttl/2+stall {
		t.Errorf("forced: the old leader was notified after %v", late)
	}
}

func (c *contest) kill(t *testing.T) {
	if err := c.leader.seat.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.leader.over <- report{} // it says no more
	_, took := c.next(t, "killed", nil)
	t.Logf("killed: the next leader after %v", took)
}
