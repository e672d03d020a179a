package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// mostProcesses bounds the requests of each instance that wait for the lock or hold it.
const mostProcesses = 8

// instance is one of the two programs that take the lock. It has a process for each request
// that waits for or holds the lock.
type instance struct {
	number int
	launch func(ctx context.Context, work time.Duration) (*process, error)

	mu        sync.Mutex
	processes []instanceProcess
}

// instanceProcess is a process, with the faults that it has now.
type instanceProcess struct {
	*process
	PID         int
	Paused, Cut bool
}

// lock starts a process that takes the lock, and returns its result when it has ended. It
// returns an error if too many processes run, or if the process cannot be started.
func (i *instance) lock(ctx context.Context, work time.Duration) (*claimResult, error) {
	began := time.Now()
	p, err := i.start(ctx, work)
	if err != nil {
		return nil, err
	}
	result := &claimResult{Outcome: outcomeKilled}
	for m := range p.messages {
		switch m.Kind {
		case answered:
			result = m.Result
		case failed:
			result = &claimResult{Outcome: outcomeFailed, Error: m.Text}
		case done:
			p.cancel() // the process has nothing more to do
		}
	}
	i.mu.Lock()
	i.processes = slices.DeleteFunc(i.processes, func(other instanceProcess) bool { return other.process == p })
	i.mu.Unlock()
	p.end()

	result.Instance = fmt.Sprintf("instance %d", i.number)
	if result.Outcome == outcomeKilled {
		result.Waited, result.Error = time.Since(began).Milliseconds(), "the process is gone; its lock ends with the lease"
	}
	if cause := context.Cause(ctx); cause != nil && result.Outcome == outcomeFailed {
		result.Error = cause.Error()
	}
	return result, nil
}

func (i *instance) start(ctx context.Context, work time.Duration) (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.processes) >= mostProcesses {
		return nil, fmt.Errorf("%d requests wait for this instance already", mostProcesses)
	}
	p, err := i.launch(ctx, work)
	if err == nil {
		p.send(wordGo)
		i.processes = append(i.processes, instanceProcess{process: p, PID: p.pid()})
	}
	return p, err
}

// do pauses, resumes or kills all processes, or cuts or restores their network.
func (i *instance) do(what string) (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := range i.processes {
		p := &i.processes[n]
		switch what {
		case "pause":
			err = p.pause()
			p.Paused = err == nil
		case "resume":
			err = p.resume()
			p.Paused = false
		case "kill":
			err = p.cmd.Process.Kill()
		case wordCut, wordMend:
			p.Cut = what == wordCut
			p.send(what) // the pipe keeps it if the process is paused
		}
		if errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
	}
	return err
}

// now returns the processes.
func (i *instance) now() []instanceProcess {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.processes)
}

// Outcomes of a claim.
const (
	outcomeDone   = "done"   // the lock was held for the whole work
	outcomeLost   = "lost"   // the lock was lost meanwhile
	outcomeKilled = "killed" // the process is gone; what it did is unknown
	outcomeFailed = "failed"
)

// claimResult is the result of a request for the lock. Times are in ms.
type claimResult struct {
	Instance string `json:"instance"`
	Outcome  string `json:"outcome"`
	Token    uint64 `json:"token,omitempty"`
	Waited   int64  `json:"waited_ms"`
	Held     int64  `json:"held_ms"`
	Write    string `json:"write,omitempty"` // "accepted" or "refused" by the ledger
	Error    string `json:"error,omitempty"`
}

// String returns the result in a line.
func (r *claimResult) String() string {
	waited, heldFor := short(r.Waited), short(r.Held)
	switch {
	case r.Outcome == outcomeDone:
		return fmt.Sprintf("%s waited %s for the lock, worked for %s (token %d), and gave it back.", r.Instance, waited, heldFor, r.Token)
	case r.Outcome == outcomeLost:
		text := fmt.Sprintf("%s waited %s for the lock (token %d) and lost it within %s.", r.Instance, waited, r.Token, heldFor)
		if r.Write != "" {
			text += " It wrote nevertheless: " + r.Write + "."
		}
		return text
	case r.Outcome == outcomeKilled:
		return fmt.Sprintf("%s was killed %s after it was asked for the lock: %s.", r.Instance, waited, r.Error)
	case r.Token != 0:
		return fmt.Sprintf("%s had the lock (token %d) for %s: %s.", r.Instance, r.Token, heldFor, r.Error)
	default:
		return fmt.Sprintf("%s did not get the lock within %s: %s.", r.Instance, waited, r.Error)
	}
}

// short formats a time in ms.
func short(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
