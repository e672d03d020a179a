// Package redistest starts real redis-server processes for tests.
//
// A server listens on the loopback only, keeps its data in a temporary folder
// and ends with the test, also when the test binary is killed (on Linux). It
// needs redis-server on PATH; where that is missing, Start skips the test, or
// fails it when the environment variable CI is set.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	binary = "redis-server"

	// startLimit bounds how long a server may take to answer, with its data
	// loaded. It takes about 10 ms on an idle machine.
	startLimit = 15 * time.Second
)

// ErrMissing says that redis-server is not on PATH.
var ErrMissing = errors.New("redis-server is not on PATH; install it (Debian: apt-get install redis-server) to run this test")

// errPortTaken says that somebody else took the port between choosing and
// binding it.
var errPortTaken = errors.New("port is taken")

// Server is one redis-server process. Its methods may be called from several
// goroutines at once.
type Server struct {
	Admin
	*state
}

// state is shared by all the copies of a Server that Bind makes.
type state struct {
	dir  string
	conf string // path of its configuration file

	mu   sync.Mutex
	proc *process // nil while killed
}

// Start runs a server for t and stops it when t ends. Where redis-server is
// missing it skips t, or fails it if the environment variable CI is set.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Run(t.TempDir(), opts...)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	s = s.Bind(t)
	t.Cleanup(s.Close)
	return s
}

// Run runs a server outside of a test, in TestMain for instance, with its data
// in dir. It returns ErrMissing where redis-server is not on PATH. The caller
// must call Close, and dir is the caller's to remove.
func Run(dir string, opts ...Option) (*Server, error) {
	if _, err := exec.LookPath(binary); err != nil {
		return nil, ErrMissing
	}
	var c config
	for _, o := range opts {
		o(&c)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for range 20 {
		var s *Server
		if s, err = runOn(dir, c); !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
	return nil, err
}

func runOn(dir string, c config) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Admin: At(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), c.password),
		state: &state{dir: dir, conf: filepath.Join(dir, "redis.conf")},
	}
	if err := os.WriteFile(s.conf, c.file(dir, port), 0o600); err != nil {
		return nil, err
	}
	// a log left by an attempt on another port would explain the wrong failure
	if err := os.Remove(s.logFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s, s.launch()
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
func (s *Server) Pause() { s.signal((*process).pause) }

// Resume continues a paused process.
func (s *Server) Resume() { s.signal((*process).resume) }

// Kill ends the process with SIGKILL, paused or not, and waits until it is
// gone. Without the option AOF its data is lost. A killed server may be killed
// again.
func (s *Server) Kill() {
	s.mu.Lock()
	p := s.proc
	s.proc = nil
	s.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// Restart kills the server if it is running and starts it again on the same
// port. It returns when the server answers, with its data loaded. With the
// option AOF every acknowledged write is there again, otherwise none.
func (s *Server) Restart() {
	s.helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.fail(err)
	}
}

// Close ends the process and waits until it is gone. It may be called more than
// once.
func (s *Server) Close() { s.Kill() }

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) signal(send func(*process) error) {
	s.helper()
	p := s.current()
	if p == nil {
		s.fail(errors.New("the server is not running"))
		return
	}
	if err := send(p); err != nil {
		s.fail(err)
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	p, err := startProcess(s.conf, s.logFile())
	if err != nil {
		return err
	}
	if err := s.await(p); err != nil {
		p.kill()
		return err
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return nil
}

// await waits until p, and not a stranger on the same port, answers.
func (s *Server) await(p *process) error {
	timeout := time.NewTimer(startLimit)
	defer timeout.Stop()
	for {
		if reply, ok := s.Do("INFO", "server").(string); ok {
			if pid := infoField(reply, "process_id"); pid != strconv.Itoa(p.pid()) {
				return fmt.Errorf("%w by the server with process id %s", errPortTaken, pid)
			}
			if s.Do("PING") == any("PONG") { // INFO answers while data is loading, PING does not
				return nil
			}
		}
		select {
		case <-p.done:
			return s.startError("ended at once")
		case <-timeout.C:
			return s.startError("did not answer within " + startLimit.String())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (s *Server) startError(what string) error {
	log := s.Log()
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	const tail = 2000
	return fmt.Errorf("%s %s; the end of its log: %s", binary, what, log[max(0, len(log)-tail):])
}

// Option changes how a server is configured.
type Option func(*config)

type config struct {
	password string
	lines    []string
}

// Password makes the server ask for password (requirepass). URL contains it,
// and the Server's own commands use it.
func Password(password string) Option {
	return func(c *config) {
		c.password = password
		c.lines = append(c.lines, fmt.Sprintf("requirepass %q", password))
	}
}

// AOF makes every acknowledged write survive Kill and Restart (appendonly with
// appendfsync always).
func AOF() Option { return Conf("appendonly yes", "appendfsync always") }

// MaxMemory limits the server's memory, "4mb" for instance, under an eviction
// policy such as "noeviction" or "allkeys-lru".
func MaxMemory(limit, policy string) Option {
	return Conf("maxmemory "+limit, "maxmemory-policy "+policy)
}

// Conf adds lines to the configuration file, after all others.
func Conf(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// file returns the text of the configuration. Nothing in it makes the server
// fork: a forked child could outlive it.
func (c config) file(dir string, port int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "port %d\nbind 127.0.0.1\ndir %q\n", port, dir)
	b.WriteString("daemonize no\nsave \"\"\nauto-aof-rewrite-percentage 0\nrepl-diskless-sync-delay 0\n")
	b.WriteString(strings.Join(c.lines, "\n"))
	b.WriteString("\n")
	return b.Bytes()
}
