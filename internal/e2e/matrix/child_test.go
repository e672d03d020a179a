package matrix

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/judge"
)

// holderVar asks the test binary to hold a lock in a process of its own.
const holderVar = "HOLDFAST_MATRIX_HOLDER"

// job is what such a process does.
type job struct {
	Route route
	Kind  kind
	Name  string
	TTL   time.Duration
	Crowd bool // it has callers that take the lock one after the other, see crowdInChild
}

// report is what it says: first when it has the lock, then when it lost it.
type report struct {
	Token  uint64
	At     time.Time
	Lost   bool
	Held   bool          // what Lock.Err said when the process looked first, after it was stopped
	Unlock string        // the error of Unlock
	Queued time.Duration // see judge.Queued

	Waits, Freed, Done bool // of a crowd: all callers wait, one has unlocked, all have
}

// holdInChild takes a lock and holds it until it is lost or stdin ends.
func holdInChild(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := j.Route.open(ctx, j.TTL, nil)
	if err != nil {
		return err
	}
	defer st.shut()
	if j.Crowd {
		return crowdInChild(j, st)
	}
	s := &scenario{cell: cell{kind: j.Kind}, name: j.Name}
	c := &client{scenario: s, store: st, locker: holdfast.New(st.Backend, &holdfast.Options{TTL: j.TTL})}
	k, err := c.ofKind(ctx, j.Kind)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(report{Token: k.number, At: time.Now()}); err != nil {
		return err
	}
	if k.ctx == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(k.ctx, func() { ended <- time.Now() })
	held := k.errAfterStop(j.TTL) == nil
	r := report{At: <-ended, Held: held, Lost: errors.Is(context.Cause(k.ctx), holdfast.ErrLost), Queued: judge.Queued(os.Getpid())}
	if err := k.give(); err != nil {
		r.Unlock = err.Error()
	}
	return out.Encode(r)
}

// errAfterStop looks at the lock as soon as this process runs again after a stop, or when
// the lock is lost.
func (k *grip) errAfterStop(ttl time.Duration) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for last := time.Now(); k.ctx.Err() == nil; <-look.C {
		now := time.Now()
		if now.Sub(last) > ttl/2 {
			break
		}
		last = now
	}
	return k.err()
}

// process holds a lock in a process of its own.
type process struct {
	*scenario
	cmd    *exec.Cmd
	out    *bufio.Reader
	belief *belief // nil of a crowd
}

// holder starts a process that holds the lock.
func (s *scenario) holder() *process {
	s.Helper()
	p, _ := s.child(job{Route: s.route(s.adapter, nil)})
	first := p.read()
	p.belief = s.history.begin(first.Token, first.At)
	return p
}

// child starts a process with a job for the lock. It returns also what the process reads.
func (s *scenario) child(j job) (*process, io.Writer) {
	s.Helper()
	j.Kind, j.Name, j.TTL = s.kind, s.name, s.ttl
	plan, err := json.Marshal(j)
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+string(plan))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{scenario: s, cmd: cmd, out: bufio.NewReader(out)}, in
}

func (p *process) read() report {
	p.Helper()
	line, err := p.out.ReadBytes('\n')
	var r report
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		p.Fatalf("the holder's process: %v", err)
	}
	return r
}

// stop stops the process.
func (p *process) stop() {
	p.Helper()
	p.signal(syscall.SIGSTOP)
	stopped := func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err != nil || stateOf(stat) == 'T'
	}
	if !p.until(patience, stopped) {
		p.Fatal("the holder's process does not stop")
	}
}

// stateOf returns the state letter in a line of /proc/<pid>/stat.
func stateOf(stat []byte) byte {
	for i := len(stat) - 1; i > 0; i-- {
		if stat[i] == ')' && i+2 < len(stat) {
			return stat[i+2]
		}
	}
	return 0
}

func (p *process) signal(sig syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.Fatal(err)
	}
}

// resume lets it run again, and returns after which time it noticed its loss, net
// of the time in which it waited for a processor.
func (p *process) resume() time.Duration {
	p.Helper()
	before := judge.Queued(p.cmd.Process.Pid)
	resumed := time.Now()
	p.signal(syscall.SIGCONT)
	last := p.read()
	p.history.end(p.belief, last.At)
	if !last.Lost {
		p.Error("the holder was not notified of its loss")
	}
	if last.Held {
		p.Error("the first look at the lock after the stop said that it is held")
	}
	if last.Unlock == "" {
		p.Error("Unlock after a loss: got nil, want ErrLost")
	}
	p.history.note('L')
	p.Logf("notified after %v, of which it waited for a processor for %v", last.At.Sub(resumed), last.Queued-before)
	return last.At.Sub(resumed) - (last.Queued - before)
}

// kill ends it at once.
func (p *process) kill() {
	p.Helper()
	p.signal(syscall.SIGKILL)
	if p.belief != nil {
		p.history.end(p.belief, time.Now())
	}
}
