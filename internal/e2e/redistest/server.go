// Package redistest starts real servers of Redis or Valkey for tests.
//
// A server listens on the loopback only, keeps its data in a temporary folder
// and ends with the test, also when the test program is killed (on Linux). Its
// program is redis-server on PATH, or what the environment variable ProgramEnv
// names. Where redis-server is missing, Start skips the test, or fails it when the
// environment variable CI is set; a program that ProgramEnv names must be there.
package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// startLimit bounds how long a server may take to answer, with its data loaded. It
// takes about 10 ms on an idle machine.
const startLimit = 15 * time.Second

// Server is one redis-server process. Its methods may be called from several
// goroutines at once.
type Server struct {
	Admin
	*state
}

// state is shared by all the copies of a Server that Bind makes. What stands
// above mu does not change.
type state struct {
	program string
	dir     string
	conf    string   // path of its configuration file
	args    []string // of the command line, behind the configuration file
	env     []string
	tune    func(*Server) // runs whenever the server has started; may be nil
	tls     *tls.Config
	peer    string // the address that other servers and the sentinels know it by
	socket  string
	temp    string // folder of the socket, if it is not in dir; removed by Close
	clock   string // the file with the offset of its clock; "" if it cannot be shifted

	mu     sync.Mutex
	proc   *process // nil while killed
	paused bool
	limits []string // to set again when the memory is free; nil while it is

	waiting []net.Conn // connections that keep others from being made; see Silence
}

// Start runs a server for t and stops it when t ends. Where redis-server is
// missing it skips t, or fails it if the environment variable CI is set.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Run(t.TempDir(), opts...)
	skip(t, err)
	s = s.Bind(t)
	t.Cleanup(s.Close)
	return s
}

// skip ends t where err is one.
func skip(t testing.TB, err error) {
	t.Helper()
	switch missing := errors.Is(err, ErrMissing) || errors.Is(err, ErrNoClock); {
	case missing && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// Run runs a server outside of a test, in TestMain for instance, with its data
// in dir. It returns ErrMissing where redis-server is not on PATH. The caller
// must call Close, and dir is the caller's to remove.
func Run(dir string, opts ...Option) (*Server, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	return child.UntilPortsAreFree(func() (*Server, error) { return runOn(dir, c) })
}

func runOn(dir string, c config) (*Server, error) {
	at, err := c.freePorts()
	if err != nil {
		return nil, err
	}
	s, err := prepare(dir, c, at)
	if err != nil {
		return nil, err
	}
	return s, s.launch()
}

// prepare writes what a server needs into dir and does not start it.
func prepare(dir string, c config, at ports) (*Server, error) {
	s := &Server{
		Admin: At(loopback(at.plain), c.password),
		state: &state{program: c.program, dir: dir, conf: filepath.Join(dir, "redis.conf"), args: c.args, tune: c.tune},
	}
	s.peer = s.Addr()
	// a log left by an attempt on another port would explain the wrong failure
	if err := os.Remove(s.logFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, add := range []func(*config, ports) error{s.addTLS, s.addSocket, s.addClock} {
		if err := add(&c, at); err != nil {
			return nil, err
		}
	}
	return s, os.WriteFile(s.conf, c.file(dir, at.plain), 0o600)
}

// Bind returns the same server for use in t: the helpers that need an answer
// fail t where there is none. A server that nobody bound panics instead.
func (s *Server) Bind(t testing.TB) *Server {
	return &Server{Admin: s.Admin.Bind(t), state: s.state}
}

// Dir returns the folder of the server's data, configuration and log.
func (s *Server) Dir() string { return s.dir }

// Log returns what the server has logged so far, over all its restarts.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// PID returns the process id of the running server, or 0 while it is killed.
func (s *Server) PID() int {
	if p := s.current(); p != nil {
		return p.pid()
	}
	return 0
}

// Pause stops the process with SIGSTOP: connections stay open, nothing is
// answered. When Pause returns the process has stopped.
func (s *Server) Pause() { s.signal((*process).pause, true) }

// Resume continues a paused process.
func (s *Server) Resume() { s.signal((*process).resume, false) }

// Kill ends the process with SIGKILL, paused or not, and waits until it is
// gone. Without the option AOF its data is lost. A killed server may be killed
// again.
func (s *Server) Kill() {
	s.mu.Lock()
	p := s.proc
	s.proc, s.paused, s.limits = nil, false, nil
	s.mu.Unlock()
	if p != nil {
		p.kill()
	}
	s.hearAgain()
}

// Restart kills the server if it is running and starts it again on the same
// port. It returns when the server answers, with its data loaded. With the
// option AOF every acknowledged write is there again, otherwise none.
func (s *Server) Restart() {
	s.helper()
	if err := s.restart(); err != nil {
		s.fail(err)
	}
}

// restart tries again for some seconds where the port was taken meanwhile: it was
// free, and the servers of tests come and go.
func (s *Server) restart(args ...string) error {
	s.Kill()
	for end := time.Now().Add(startLimit); ; time.Sleep(50 * time.Millisecond) {
		if err := s.launch(args...); !errors.Is(err, child.ErrPortTaken) || time.Now().After(end) {
			return err
		}
	}
}

// Close ends the process and waits until it is gone. It may be called more than
// once.
func (s *Server) Close() {
	s.Kill()
	if s.temp != "" {
		_ = os.RemoveAll(s.temp)
	}
}

// logged returns how long the log is.
func (s *Server) logged() int64 {
	info, err := os.Stat(s.logFile())
	if err != nil {
		return 0 // there is none yet
	}
	return info.Size()
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// running reports whether the process is there and not paused.
func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !s.paused
}

func (s *Server) signal(send func(*process) error, paused bool) {
	s.helper()
	if err := s.trySignal(send, paused); err != nil {
		s.fail(err)
	}
}

func (s *Server) trySignal(send func(*process) error, paused bool) error {
	p := s.current()
	if p == nil {
		return errors.New("the server is not running")
	}
	if err := send(p); err != nil {
		return err
	}
	s.mu.Lock()
	s.paused = paused && s.proc == p
	s.mu.Unlock()
	if !paused {
		s.hearAgain()
	}
	return nil
}

// unpause continues the process if it is paused.
func (s *Server) unpause() error {
	if s.running() || s.PID() == 0 {
		return nil
	}
	return s.trySignal((*process).resume, false)
}

// launch starts the process and waits until it answers. args are for this run
// only.
func (s *Server) launch(args ...string) error {
	before := s.logged()
	p, err := startProcess(s.program, s.conf, s.logFile(), append(slices.Clip(s.args), args...), s.env)
	if err != nil {
		return err
	}
	if err := s.await(p, before); err != nil {
		p.kill()
		return err
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	if s.tune != nil {
		s.tune(s)
	}
	return nil
}

// await waits until p, and not a stranger on the same port, answers. Its log begins
// after so many bytes of the server's.
func (s *Server) await(p *process, before int64) error {
	timeout := time.NewTimer(startLimit)
	defer timeout.Stop()
	for {
		if reply, ok := s.Do("INFO", "server").(string); ok {
			if pid := infoField(reply, "process_id"); pid != strconv.Itoa(p.pid()) {
				return fmt.Errorf("%w by the server with process id %s", child.ErrPortTaken, pid)
			}
			if s.Do("PING") == any("PONG") { // INFO answers while data is loading, PING does not
				return nil
			}
		}
		select {
		case <-p.done:
			return s.startError("ended at once", before)
		case <-timeout.C:
			return s.startError("did not answer within "+startLimit.String(), before)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *Server) startError(what string, before int64) error {
	log := s.Log()
	log = log[min(int(before), len(log)):]
	if strings.Contains(log, "Address already in use") {
		return child.ErrPortTaken
	}
	const tail = 2000
	return fmt.Errorf("%s %s; the end of its log: %s", s.program, what, log[max(0, len(log)-tail):])
}
