package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/work"
)

// team is the processes of one sample.
type team struct{ members []*member }

type member struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
}

// command is a measuring process, not started yet. It is killed when ctx ends.
func (r *Runner) command(ctx context.Context, args []string) *exec.Cmd {
	args = append(r.cores.clients(), args...)
	return exec.CommandContext(ctx, args[0], args[1:]...)
}

// start starts a process and gives it its plan.
func (t *team) start(ctx context.Context, cmd *exec.Cmd, plan work.Plan) error {
	m := &member{cmd: cmd}
	cmd.Stderr = &m.stderr
	cmd.WaitDelay = time.Second
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.orders, m.lines = orders, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return err
	}
	t.members = append(t.members, m)
	return errors.Join(ctx.Err(), json.NewEncoder(orders).Encode(plan))
}

// hear waits until every process has said a word.
func (t *team) hear(word string) error {
	for _, m := range t.members {
		line, err := m.lines.ReadString('\n')
		if err != nil {
			return m.failed(err)
		}
		if strings.TrimSpace(line) == word {
			continue
		}
		var result work.Result // of a process that could not go on
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			return m.failed(err)
		}
		return errors.New(result.Error)
	}
	return nil
}

// say sends a word to every process.
func (t *team) say(word string) error {
	for _, m := range t.members {
		if _, err := fmt.Fprintln(m.orders, word); err != nil {
			return m.failed(err)
		}
	}
	return nil
}

// results puts the results together.
func (t *team) results() (report.Sample, error) {
	var sample report.Sample
	for _, m := range t.members {
		var result work.Result
		if err := json.NewDecoder(m.lines).Decode(&result); err != nil {
			return sample, m.failed(err)
		}
		if result.Error != "" {
			return sample, errors.New(result.Error)
		}
		merge(&sample, result)
	}
	return sample, nil
}

// merge adds the result of one more process.
func merge(s *report.Sample, r work.Result) {
	s.Shares = append(s.Shares, r.Pairs)
	s.Pairs += r.Pairs
	s.Turns += r.Turns
	s.Each = append(s.Each, r.Each...)
	s.Elapsed = max(s.Elapsed, r.Elapsed)
	s.Longest = max(s.Longest, r.Longest)
	s.Latency = s.Latency.Merge(r.Latency)
	s.Dead = s.Dead.Merge(r.Dead)
	s.CPU += r.CPU
	s.Allocs += r.Allocs
	s.Bytes += r.Bytes
	s.Starts += r.Starts
	s.Runs += r.Runs
	s.Reads += r.Reads
	s.Writes += r.Writes
	s.Kept += r.Kept
	s.Goroutines = max(s.Goroutines, r.Goroutines)
	s.Memory = max(s.Memory, r.Memory)
	if s.LeastLeft == 0 || r.LeastLeft < s.LeastLeft {
		s.LeastLeft = r.LeastLeft
	}
	s.Violations += r.Violations
}

// failed explains the end of a process by what it said.
func (m *member) failed(err error) error {
	_ = m.orders.Close()
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait() // after which stderr is complete
	said := strings.TrimSpace(m.stderr.String())
	if len(said) > 2000 {
		said = said[:2000] + " …"
	}
	return fmt.Errorf("a measuring process ended early: %w: %s", err, said)
}

// close waits until all processes are gone. Those that are not at their end are
// killed.
func (t *team) close() {
	for _, m := range t.members {
		_ = m.orders.Close()
		if m.cmd.ProcessState == nil {
			timer := time.AfterFunc(10*time.Second, func() { _ = m.cmd.Process.Kill() })
			_ = m.cmd.Wait()
			timer.Stop()
		}
	}
}
