// Package worker has what the worker processes of locktest, matrix and soak share: their start,
// their plan, the kinds of lock that they take, and when they did not run. What they do with the
// locks goes to package judge.
package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// The job of a worker process, and its plan. A program that needs several processes starts
// itself again with them.
const (
	jobVar  = "HOLDFAST_WORKER"
	planVar = "HOLDFAST_WORKER_PLAN"
)

// Worker is this process, if Command has started it.
type Worker struct {
	Log  *judge.Recorder // writes to the standard output
	plan string
}

// Main does a job, if Command has started this process, and ends the process: with status 1, and
// the error on the standard error, if the job returned one. In any other process it does nothing.
func Main(jobs map[string]func(*Worker) error) {
	job, is := os.LookupEnv(jobVar)
	if !is {
		return
	}
	err := fmt.Errorf("unknown job %q", job)
	if do := jobs[job]; do != nil {
		err = do(&Worker{Log: judge.NewRecorder(os.Stdout), plan: os.Getenv(planVar)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Plan sets p, a pointer, to the plan of the worker.
func (w *Worker) Plan(p any) error { return json.Unmarshal([]byte(w.plan), p) }

// UntilStopped returns a context that ends when the process was asked to come to an end, and
// after limit at the latest. It reads the standard input, so the worker gets no orders.
func (w *Worker) UntilStopped(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// Command returns a command that runs this program again as a worker, until ctx ends.
func Command(ctx context.Context, job string, plan any) (*exec.Cmd, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), jobVar+"="+job, planVar+"="+string(text))
	return cmd, nil
}

// Start starts this program again as a worker, which is the process with number id. See
// judge.Start for hear.
func Start(id int, job string, plan any, hear func(judge.Event)) (*judge.Process, error) {
	cmd, err := Command(context.Background(), job, plan)
	if err != nil {
		return nil, err
	}
	return judge.Start(id, cmd, hear)
}
