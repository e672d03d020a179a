package manytest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// parts are the processes of a crowd.
type parts []*remote

// remote is one of them.
type remote struct {
	in   io.WriteCloser
	said <-chan string // closed when it has ended
}

// split starts the parts of a crowd, which end with the test.
func (l *Load) split(t *testing.T, c Crowd) (all parts) {
	t.Helper()
	start := l.inside
	if Full() {
		start = l.outside
	}
	for i := range loadParts {
		in, out := start(t, &part{Crowd: c, At: l.At, Index: i})
		said := make(chan string)
		go func() {
			defer close(said)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said <- lines.Text()
			}
		}()
		r := &remote{in, said}
		all = append(all, r)
		t.Cleanup(func() {
			_ = r.in.Close()
			for range r.said { // until it has ended
			}
		})
	}
	return all
}

// inside starts a part in this process.
func (l *Load) inside(t *testing.T, p *part) (in io.WriteCloser, out io.Reader) {
	orders, in := io.Pipe()
	out, answers := io.Pipe()
	go func() {
		if err := p.serve(l.Open, orders, answers); err != nil {
			t.Error(err)
		}
		_ = orders.Close()
		_ = answers.Close()
	}()
	return in, out
}

// outside starts a part in a process of its own.
func (l *Load) outside(t *testing.T, p *part) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVar+"="+string(text))
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, answers := io.Pipe()
	cmd.Stdout = answers
	if _, err := child.Start(cmd, func() {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process of the crowd: %v", err)
		}
		_ = answers.Close()
	}); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// next has all parts do their next step, and returns what went wrong.
func (ps parts) next(t *testing.T, what string) (err error) {
	t.Helper()
	for _, p := range ps {
		_, _ = io.WriteString(p.in, "\n")
	}
	for _, p := range ps {
		select {
		case line, ok := <-p.said:
			if ok && line != done {
				err = errors.Join(err, fmt.Errorf("%s: %s", what, line))
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("not within 2 minutes: %s", what)
		}
	}
	return err
}
