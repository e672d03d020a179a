package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// pageLock is the name of the lock that the instances take.
const pageLock = "lock"

// mostProcesses is how many requests of one instance may wait for the lock or hold it at a
// time.
const mostProcesses = 8

// instance is one of the two programs that take the lock. For each request that waits for the
// lock or holds it, the instance has a process.
type instance struct {
	site   *site
	number int

	mu        sync.Mutex
	processes []*process
}

// lock starts a process that takes the lock. When the process has ended, lock returns its
// result.
func (i *instance) lock(ctx context.Context, work time.Duration) reply {
	r := &claimResult{Instance: fmt.Sprintf("instance %d", i.number), Outcome: outcomeKilled, Error: "the process is dead, and its lock ends with the lease"}
	began := time.Now()
	shown := &run{instance: i.number}
	p, err := i.start(ctx, work, r, shown)
	if err != nil {
		refusal := problem{fmt.Sprintf("%s: %v", r.Instance, err)}
		i.site.timeline.judge(i.number, verdict{"danger", "not started", refusal.Error})
		return reply{http.StatusServiceUnavailable, refusal}
	}
	<-p.gone
	i.site.timeline.note(shown, gone, 0, time.Now())
	i.mu.Lock()
	i.processes = slices.DeleteFunc(i.processes, func(other *process) bool { return other == p })
	i.mu.Unlock()

	if cause := context.Cause(ctx); cause != nil && (r.Outcome == outcomeKilled || r.Outcome == outcomeFailed) {
		r.Outcome, r.Error = outcomeFailed, cause.Error() // the client has left, or the demo ends
	}
	if r.Outcome == outcomeKilled || r.Token == 0 {
		r.Waited = inMS(time.Since(began))
	} else if r.Held == 0 {
		r.Held = inMS(time.Since(r.granted))
	}
	i.site.timeline.judge(i.number, verdictOf(r))
	switch r.Outcome {
	case outcomeDone:
		return reply{http.StatusOK, r}
	case outcomeLost:
		return reply{http.StatusConflict, r}
	default:
		return reply{http.StatusServiceUnavailable, r}
	}
}

// start starts a process, which reports its result to r. The timeline shows it as `shown`.
func (i *instance) start(ctx context.Context, work time.Duration, r *claimResult, shown *run) (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.processes) >= mostProcesses {
		return nil, fmt.Errorf("%d requests already wait for this instance; try again later", mostProcesses)
	}
	j := job{
		Name: fmt.Sprintf("%s of %s", r.Instance, i.site.Self), Access: i.site.Servers[0].access, Keys: keys{prefix, pageLock},
		Log: true, Lease: cmp.Or(i.site.lease, pageLease), Work: work,
	}
	shown.name = j.Name
	p, err := startProcess(ctx, i.site.Worker, i.site.Env, j, func(_ context.Context, m message) {
		r.hear(m)
		i.site.timeline.hear(shown, m, time.Now())
	})
	if err == nil {
		p.shown = shown
		i.site.timeline.begin(shown, p.PID(), time.Now())
		p.send(wordGo)
		i.processes = append(i.processes, p)
	}
	return p, err
}

// do changes all processes of the instance: it pauses, resumes or kills them, or cuts or
// restores their network.
func (i *instance) do(what string) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.processes {
		happened, own := p.do(what)
		switch {
		case errors.Is(own, os.ErrProcessDone):
		case own != nil:
			err = own
		default:
			i.site.timeline.note(p.shown, happened, 0, time.Now())
		}
	}
	return err
}

// do changes a process, and returns what has happened to it.
func (p *process) do(what string) (happened kind, err error) {
	switch what {
	case "pause":
		return paused, p.pause()
	case "resume":
		return resumed, p.resume()
	case "kill":
		return killed, p.cmd.Process.Kill()
	}
	p.send(what) // if the process is paused, the pipe keeps the word
	if what == wordCut {
		return cutOff, nil
	}
	return connected, nil
}

// Outcomes of a claim.
const (
	outcomeDone   = "done"   // the lock was held for the whole work
	outcomeLost   = "lost"   // the lock was lost during the work
	outcomeKilled = "killed" // the process was killed and reported no result; also the value before there is a result
	outcomeFailed = "failed" // an error ended the request
)

// claimResult is the result of a request for the lock. Times are in ms.
type claimResult struct {
	Instance string `json:"instance"`
	Outcome  string `json:"outcome"`
	Token    uint64 `json:"token,omitempty"`
	Waited   ms     `json:"waited_ms"`
	Held     ms     `json:"held_ms"`
	Write    kind   `json:"write,omitempty"` // "accepted" or "refused" by the ledger
	Error    string `json:"error,omitempty"`

	granted time.Time
}

// hear records in r what the message m of the process says about the result.
func (r *claimResult) hear(m message) {
	switch m.Kind {
	case held:
		r.Token, r.Waited, r.granted = m.Token, inMS(m.Took), time.Now()
	case wrote, refused:
		r.Write = m.Kind
	case lost:
		r.Write = "" // the write that follows sets it
	case unlocked:
		r.Outcome, r.Held, r.Error = outcomeDone, inMS(m.Took), m.Text
		if m.Text != "" {
			r.Outcome = outcomeLost
		}
	case failed:
		r.Outcome, r.Error = outcomeFailed, m.Text
	}
}

// String returns the result in a line.
func (r *claimResult) String() string {
	switch {
	case r.Outcome == outcomeDone:
		return fmt.Sprintf("%s waited %s for the lock, worked for %s (token %d), and released the lock.", r.Instance, r.Waited, r.Held, r.Token)
	case r.Outcome == outcomeLost:
		text := fmt.Sprintf("%s waited %s for the lock (token %d) and lost the lock after %s.", r.Instance, r.Waited, r.Token, r.Held)
		if r.Write != "" {
			text += fmt.Sprintf(" It wrote nevertheless: %s.", r.Write)
		}
		return text
	case r.Outcome == outcomeKilled:
		return fmt.Sprintf("%s was killed %s after the request: %s.", r.Instance, r.Waited, r.Error)
	case r.Token != 0:
		return fmt.Sprintf("%s held the lock (token %d) for %s, and then failed: %s.", r.Instance, r.Token, r.Held, r.Error)
	default:
		return fmt.Sprintf("%s did not get the lock within %s: %s.", r.Instance, r.Waited, r.Error)
	}
}
