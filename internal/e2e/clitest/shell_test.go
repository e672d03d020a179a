//go:build unix

package clitest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// shell is a shell in which the lines of a page are typed.
type shell struct {
	*machine
	page string
	in   io.Writer
	out  *bufio.Reader // of the shell, and of all that it runs
}

// open starts a shell. It and what it runs end with ctx, or with the test.
func (m *machine) open(ctx context.Context, page string) *shell {
	m.Helper()
	s := &shell{machine: m, page: page}
	cmd := exec.CommandContext(ctx, "sh")
	cmd.Dir, cmd.Env = m.home, m.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, w, err := os.Pipe()
	if err != nil {
		m.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	s.out = bufio.NewReader(out)
	if s.in, err = cmd.StdinPipe(); err != nil {
		m.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	_ = w.Close()
	m.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		_ = out.Close()
	})
	s.enterLine(pages.TidyRetries)
	return s
}

// next returns the next line that something prints.
func (s *shell) next() (line string, ok bool) {
	line, err := s.out.ReadString('\n')
	return line, err == nil
}

// enterLine types a line, and returns its status and what was printed meanwhile.
func (s *shell) enterLine(line string) (text string, status int) {
	s.Helper()
	const ended = "the line ended with "
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null; echo %q$?\n", line, ended); err != nil {
		s.Fatalf("%s: %s: %v", s.page, line, err)
	}
	for {
		next, ok := s.next()
		if !ok {
			s.Fatalf("%s: %s: the shell ended\n%s", s.page, line, text)
		}
		if number, ok := strings.CutPrefix(next, ended); ok {
			status, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				s.Fatalf("%s: %s: %v", s.page, line, err)
			}
			return text, status
		}
		text += next
	}
}
