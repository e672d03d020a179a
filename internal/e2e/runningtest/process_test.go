//go:build unix

package runningtest

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// process is a program that runs.
type process struct {
	*testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	pid    int // of the process that gets signals
}

// start starts a program.
func (m *machine) start(cmd *exec.Cmd) *process {
	m.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		m.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	p := &process{T: m.T, cmd: cmd, stdout: bufio.NewReader(stdout), pid: cmd.Process.Pid}
	m.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// await reads lines until one has the text.
func (p *process) await(text string) {
	p.Helper()
	var all strings.Builder
	for {
		line, err := p.stdout.ReadString('\n')
		all.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			p.Fatalf("waiting for %q: %v in %q", text, err, &all)
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.Helper()
	if err := syscall.Kill(p.pid, s); err != nil {
		p.Fatal(err)
	}
}

// status waits for the end of the program and of all processes that write to its output.
func (p *process) status() int {
	p.Helper()
	_, _ = io.Copy(io.Discard, p.stdout)
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}
