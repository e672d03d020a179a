//go:build unix

package storecli

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// family is a command that ignores every polite signal, has a child and a grandchild,
// and keeps the pipe $ALIVE open.
const family = `trap "" TERM INT HUP; exec >"$ALIVE"; sh -c 'sleep 100 & sleep 100 & wait' & echo ready; sleep 100`

// Run tries what the tool does on every store: each case is a test of its own below t.
func (c *Tool) Run(t *testing.T) {
	t.Run("Doctor", func(t *testing.T) { examined(t, c.In(t)) }) // before Serve, which examines the store too: both take one test lock
	for name, test := range map[string]func(*testing.T, *Tool){
		"Runs":         runs,
		"Busy":         busy,
		"Waits":        waits,
		"Leads":        leads,
		"Nested":       nested,
		"Status":       status,
		"Looks":        looks,
		"Keeps":        keeps,
		"Serve":        served,
		"Frozen":       frozen,
		"FrozenAtOnce": frozenAtOnce,
		"FrozenLater":  frozenLater,
		"Demo":         demo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c.In(t))
		})
	}
}

// runs: the command has the lock, its token rises, its status is that of the tool, and
// the lock is free after it.
func runs(t *testing.T, c *Tool) {
	last := uint64(0)
	for range 3 {
		p := c.Start("run", "-n", "runs", "--shell", `echo "$HOLDFAST_BACKEND $HOLDFAST_NAME $HOLDFAST_TOKEN"`)
		p.Want(0, c.store.Backend+" runs ")
		fields := strings.Fields(p.said.String())
		token, err := strconv.ParseUint(fields[len(fields)-1], 10, 64)
		if err != nil || token <= last {
			t.Errorf("got token %d after %d, %v", token, last, err)
		}
		last = token
	}
	c.Start("run", "-n", "runs", "--", "sh", "-c", "exit 7").Want(7)
	c.Start("run", "-n", "runs", "--", "no-such-program-here").Want(127)
}

// busy: a caller that cannot have the lock learns its holder, and may have it after the unlock.
func busy(t *testing.T, c *Tool) {
	h := c.Hold("busy")
	c.Start("run", "-n", "busy", "--", "true").Want(75, `lock "busy" is held by holdfast@`, "(maintenance)")
	c.Start("run", "-w", "1s", "busy", "--", "true").Want(75, `lock "busy" is held by holdfast@`)
	c.Start("run", "-n", "-E", "3", "busy", "--", "true").Want(3)
	c.Start("run", "-n", "--skip-ok", "busy", "--", "true").Want(0)
	c.Start("run", "-n", "other", "--", "true").Want(0)
	h.End()
	h.Want(0, `released "busy"`)
	c.Start("run", "-n", "busy", "--", "true").Want(0)
}

// waits: a waiter has the lock soon after it is free.
func waits(t *testing.T, c *Tool) {
	h := c.Hold("waits")
	p := c.Start("run", "-t", "20s", "waits", "--", "echo", "it runs")
	p.Await(`waiting for lock "waits"`)
	if strings.Contains(p.said.String(), "it runs") {
		t.Error("the command runs while another holds the lock")
	}
	h.End()
	h.Want(0)
	begun := time.Now()
	p.Want(0, "it runs", `got lock "waits"`)
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("it ran %v after the lock was free", took)
	}
}

func leads(_ *testing.T, c *Tool) {
	c.Start("elect", "--once", "leads", "--", "echo", "it leads").Want(0, "it leads")
}

// nested: a command that waits for the lock that it runs under ends at once.
func nested(_ *testing.T, c *Tool) {
	c.Start("run", "nested", "--", c.binary, "run", "other", "--", c.binary, "run", "nested", "--", "true").
		Want(125, `lock "nested" is held by holdfast@`, "which runs this command and waits for its end")
}

// status: the server is named, with its version and how quickly it answers.
func status(t *testing.T, c *Tool) {
	p := c.Start("status")
	p.Want(0, "store       "+c.store.URL("")[:4], "server      "+c.store.Name+" version ", "latency     ")
	c.Start("status", "--json").Want(0, `"server":"`, `"latency_ms":`)
}

// examined: a test lock works, and what endangers locks here is said, if anything.
func examined(_ *testing.T, c *Tool) {
	c.Start("doctor", "-v", "--fail-on", "never").Want(0, "ok       locks: a test lock works", "ok       latency: ")
	c.Start("doctor", "--json", "--fail-on", "never").Want(0, `"deployment":"`, `"version":"`, `"id":"locks","severity":"ok"`)
}

// looks: locks and holders are shown, and a hold can be ended, with a reason that its holder
// is notified.
func looks(_ *testing.T, c *Tool) {
	h := c.Hold("looks")
	c.Start("ls", "--json", "looks").Want(0, `"name":"looks"`)
	c.Start("inspect", "looks").Want(0, "looks", "(maintenance)")
	c.Start("status", "looks").Want(75, "looks: held by holdfast@", "(maintenance)")
	c.Start("status", "nobody").Want(0, "nobody: free")
	c.Start("tail", "looks", "--count", "1").Want(0, "looks", "(maintenance)")
	c.Start("force-unlock", "looks", "--reason", "it is stuck", "--token", "1").Want(1, "nothing was done")
	c.Start("force-unlock", "looks", "--reason", "it is stuck", "--token", h.token()).Want(0, "ended the hold of holdfast@")
	h.Want(79, `lock "looks" lost`, "it is stuck")
	c.Start("status", "looks").Want(0, "looks: free")
}

// keeps: the name stays taken after the command, by nobody, until it is freed by force. If the
// store cannot keep it, run says so, and holds the lock for that time.
func keeps(_ *testing.T, c *Tool) {
	const by = " (kept by true@"
	const held = "the store cannot keep the name of this lock after a release, so run holds the lock"
	p := c.Start("run", "-v", "--at-least", "1s", "keeps", "--", "true")
	if c.store.NoAtLeast {
		p.Want(0, held)
		return
	}
	p.Want(0)
	p.Hides(held)
	c.Start("run", "--at-least", "1h", "keeps", "--", "true").Want(0)
	c.Start("run", "-n", "keeps", "--", "true").Want(75, `lock "keeps" is taken until `, by)
	c.Start("ls", "keeps").Want(0, "taken until ", by)
	inspect := c.Start("inspect", "keeps")
	inspect.Want(0, "state       taken until ", by, "holders     0")
	c.Start("status", "keeps").Want(75, "keeps: taken until ", by)
	owner := regexp.MustCompile(`\S+\.kept`).FindString(inspect.said.String())
	c.Start("force-unlock", "--yes", "--holder", owner, "--reason", "not today", "keeps").Want(0)
	c.Start("run", "-n", "keeps", "--", "true").Want(0)
}

func demo(_ *testing.T, c *Tool) {
	c.Start("demo", "--url", c.URL(), "--buyers", "12", "--items", "3", "--processes", "2", "--look", "300ms", "--timeout", "90s").
		Want(0, "3 sales of 3 items", "The ledger refuses", "Everything happened as claimed.")
}

// frozen: where the store stands still, nothing is left of the command when somebody else
// can have the lock, which asks past the gateway.
func frozen(t *testing.T, c *Tool) {
	p := c.startAlive("run", "-t", "3s", "--kill-after", "200ms", "frozen", "--", "sh", "-c", family)
	if _, err := p.ready(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	past := c.In(t)
	next := past.startAlive("run", "-t", "20s", "frozen", "--", "sh", "-c", `exec >"$ALIVE"; echo ready`)
	next.Await("waiting for lock")
	c.way.freeze()
	frozen := time.Now()
	type start struct {
		at  time.Time
		err error
	}
	granted := make(chan start, 1)
	go func() {
		at, err := next.ready(20 * time.Second)
		granted <- start{at, err}
	}()
	late := await.Starved(func() { p.gone(10 * time.Second) })
	gone := time.Now()
	if s := <-granted; s.err != nil || gone.Sub(s.at) > late {
		t.Errorf("another had the lock %v before the end of the command, %v; the machine stood still for %v", gone.Sub(s.at), s.err, late)
	}
	p.Want(79, "counts as lost in")
	next.Want(0)
	t.Logf("the command was gone %v after the store froze, and the tool %v", gone.Sub(frozen), time.Since(frozen))
}

// frozenLater: where the store stands still when the command has ended, the tool ends at
// most a second after the lease could.
func frozenLater(t *testing.T, c *Tool) {
	p := c.startAlive("run", "-t", "3s", "later", "--", "sh", "-c", `exec >"$ALIVE"; echo ready; read -r line; true`)
	if _, err := p.ready(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	c.way.freeze()
	frozen := time.Now()
	p.End()
	late := await.Starved(func() { p.Want(0) })
	if took := time.Since(frozen); took > 4*time.Second+late {
		t.Errorf("the tool ended %v after the store froze, want its lease of 3s and a second at most; the machine stood still for %v", took, late)
	} else {
		t.Logf("the tool ended %v after the store froze", took)
	}
}

// frozenAtOnce: a store that does not answer at all is unreachable, and said so in time.
func frozenAtOnce(_ *testing.T, c *Tool) {
	c.way.freeze()
	c.Start("run", "-n", "frozen", "--", "true").Want(69, c.store.Name+" at ")
}
