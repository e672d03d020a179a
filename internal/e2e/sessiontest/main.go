package sessiontest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// The environment of a program that holds a lock until it is killed.
const (
	holderVar = "HOLDFAST_TEST_HOLDER" // the kind and the name
	addrVar   = "HOLDFAST_TEST_ADDR"   // what Open gets
)

// Beside is the server that all tests of a package share.
type Beside struct {
	// Start starts it, with its data in dir. addr is what programs get that StartHolder
	// starts.
	Start func(dir string) (addr string, stop func(), err error)
	// Open returns a client of a program that StartHolder started.
	Open Open
}

// Tests returns the tests of a package, for goleak.VerifyTestMain, which run beside a
// server. In a program that StartHolder started it does not return.
func (b Beside) Tests(m *testing.M) Tests {
	RunProgram(b.Open)
	return Tests{b, m}
}

// RunProgram is the program that StartHolder or GoneWaiters started, if this process is one, and
// ends the process then. TestMain calls it first, with what opens a client.
func RunProgram(open Open) {
	if kind, name, ok := strings.Cut(os.Getenv(holderVar), " "); ok {
		fmt.Fprintln(os.Stderr, open.hold(Kind(kind), name))
		os.Exit(1)
	}
	if way, name, ok := strings.Cut(os.Getenv(quitterVar), " "); ok {
		if err := open.giveUp(way, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0) // at once, without Drain
	}
}

// Open returns a client of the server at an address.
type Open func(addr string) (driver.Backend, error)

// Tests are those of a package, which run beside a server.
type Tests struct {
	Beside
	tests *testing.M
}

// Run runs them, and returns the status of the program.
func (s Tests) Run() int {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	addr, stop, err := s.Start(dir)
	if err == nil {
		defer stop()
		err = os.Setenv(addrVar, addr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return s.tests.Run()
}

// hold is the program that holds a lock.
func (open Open) hold(kind Kind, name string) error {
	backend, err := open(os.Getenv(addrVar))
	if err != nil {
		return err
	}
	lock, err := kind.Take(context.Background(), holdfast.New(backend, nil), name)
	if err != nil {
		return err
	}
	fmt.Println("held")
	<-lock.Context(context.Background()).Done()
	return lock.Err()
}

// StartHolder returns a process of a package that has Beside.Tests, which holds a lock of
// the common server until it is killed, with t at the latest.
func StartHolder(t *testing.T, kind Kind, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVar+"="+string(kind)+" "+name)
	out := StartProgram(t, cmd)
	if said, err := out.ReadString('\n'); err != nil || said != "held\n" {
		t.Fatalf("got %q, %v, want that it holds", said, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			_ = cmd.Process.Kill() // so that the output ends
			said, _ := io.ReadAll(out)
			t.Logf("the holder said %q", said)
		}
	})
	return cmd
}

// StartProgram runs cmd, which is killed when t ends, and returns what it prints.
func StartProgram(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	done, err := child.Start(cmd, func() {
		_ = w.CloseWithError(fmt.Errorf("it ended: %w", errors.Join(io.EOF, cmd.Wait())))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = r.Close()
		<-done
	})
	return bufio.NewReader(r)
}
