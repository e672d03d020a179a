//go:build unix

package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// ErrMissing says that the programs of a server are not installed.
var ErrMissing = errors.New("not installed")

// startLimit bounds how long a server may take to answer.
const startLimit = 30 * time.Second

// Server is one database server, with its data in a temporary folder of its own. Its
// methods may be called from several goroutines at once.
type Server struct {
	// Driver and Name are what sql.Open takes: "pgx" or "mysql", and the database.
	Driver, Name string

	dir     string
	user    string               // as whom it runs
	as      *syscall.SysProcAttr // the same
	program string
	args    []string
	crash   os.Signal // ends it at once, with all of its processes
	polite  os.Signal // ends it as its manual says
	port    int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done <-chan struct{}
	log  *bytes.Buffer // read only when it is gone
}

// makeServer makes the folder. Database servers refuse to run as root, so that
// root runs them as the user of their package.
func makeServer(packageUser string) (*Server, error) {
	dir, err := os.MkdirTemp("", "holdfast-sql-") // not t.TempDir, into which another user cannot look
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, as: &syscall.SysProcAttr{}, crash: syscall.SIGKILL}
	if err := s.become(packageUser); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// become has the server run as that user, if this program runs as root.
func (s *Server) become(packageUser string) error {
	self, err := user.Current()
	if err != nil {
		return err
	}
	s.user = self.Username
	if self.Uid != "0" {
		return nil
	}
	other, err := user.Lookup(packageUser)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(other.Uid)
	gid, _ := strconv.Atoi(other.Gid)
	if err := os.Chown(s.dir, uid, gid); err != nil {
		return err
	}
	s.user = packageUser
	s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	as := *s.as
	cmd.SysProcAttr = &as
	return cmd
}

// run runs a program to its end.
func (s *Server) run(name string, args ...string) error {
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Restart starts the server again, with its data, after Kill, and returns when it
// answers.
func (s *Server) Restart() error {
	if err := s.launch(); err != nil {
		return err
	}
	db, err := sql.Open(s.Driver, s.Name)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := ready(db); err != nil {
		s.Kill()
		return fmt.Errorf("%s: %w\n%s", filepath.Base(s.program), err, s.Log())
	}
	return nil
}

// launch starts the process.
func (s *Server) launch() error {
	cmd, log := s.command(s.program, s.args...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = 5 * time.Second                          // processes that it left behind keep its output open
	done, err := child.Start(cmd, func() { _ = cmd.Wait() }) // how it ended is in its log
	if err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.done, s.log = cmd, done, log
	return nil
}

// ready returns when the server behind db answers.
func ready(db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // a server that starts sends no event
	}
}

// Kill ends the server at once, without a checkpoint, and waits until it is gone. What
// it acknowledged is in its files. It may be called again.
func (s *Server) Kill() { s.end(s.crash) }

// Close ends the server, if it runs, and removes its folder.
func (s *Server) Close() {
	if s.polite != nil {
		s.end(s.polite)
	}
	_ = os.RemoveAll(s.dir)
}

// end signals the process and waits until it is gone.
func (s *Server) end(signal os.Signal) {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	if cmd == nil { // it could not be started
		return
	}
	_ = s.Resume()                 // a paused process takes no signal but SIGKILL, and would leave its own ones paused
	_ = cmd.Process.Signal(signal) // fails only where it has ended already
	force := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	<-done
	force.Stop()
}

// Log returns what the server printed. It may be called when it is gone.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return ""
	}
	return s.log.String()
}

// Addr returns the address for clients, "host:port".
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// PID returns the first of its processes.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Pause stops the server with all of its processes, until Resume.
func (s *Server) Pause() error {
	if err := s.pause(); err != nil {
		return errors.Join(err, s.Resume())
	}
	return nil
}

func (s *Server) pause() error {
	for range 2 { // the second time those that began meanwhile
		all, err := s.processes()
		if err != nil {
			return err
		}
		for i, p := range all { // the first one first: then there are no new ones
			if err := child.Pause(p); err != nil && (i == 0 || !hasEnded(err)) {
				return err
			}
		}
	}
	return nil
}

// hasEnded reports that a process could not be paused since it is gone, as that of a
// connection which was closed.
func hasEnded(err error) bool {
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrNotExist)
}

// Resume lets the processes go on.
func (s *Server) Resume() error {
	all, err := s.processes()
	for _, p := range all {
		_ = child.Resume(p) // fails only where it has ended
	}
	return err
}

// processes returns the process of the server, and those that it started.
func (s *Server) processes() ([]*os.Process, error) {
	s.mu.Lock()
	first := s.cmd.Process
	s.mu.Unlock()
	all := []*os.Process{first}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", first.Pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for id := range strings.FieldsSeq(string(text)) {
			n, _ := strconv.Atoi(id)
			p, err := os.FindProcess(n)
			if err != nil {
				return all, err
			}
			all = append(all, p)
		}
	}
	return all, err
}

// RunPostgreSQL runs a PostgreSQL server outside of a test. settings are "name=value".
// The caller must call Close.
func RunPostgreSQL(settings ...string) (*Server, error) {
	initdb := program("/usr/lib/postgresql/*/bin/initdb", "initdb")
	if initdb == "" {
		return nil, fmt.Errorf("PostgreSQL (initdb and postgres; Debian: apt-get install postgresql): %w", ErrMissing)
	}
	s, err := makeServer("postgres")
	if err != nil {
		return nil, err
	}
	if err := s.fill(initdb, "-D", s.data(), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		s.Close()
		return nil, err
	}
	return s, s.servePostgreSQL(settings)
}

// servePostgreSQL starts a server whose folder of data is made. It closes s where that fails.
func (s *Server) servePostgreSQL(settings []string) error {
	var err error
	if s.port, err = redistest.FreePort(); err != nil {
		s.Close()
		return err
	}
	// SIGQUIT ends all processes without a checkpoint, as a crash does.
	s.Driver, s.crash, s.polite = "pgx", syscall.SIGQUIT, syscall.SIGINT
	s.program = filepath.Join(filepath.Dir(program("/usr/lib/postgresql/*/bin/initdb", "initdb")), "postgres")
	s.args = []string{
		"-D", s.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-c", "fsync=off",
		"-c", "unix_socket_directories=", "-c", "max_connections=150",
	}
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
	at := url.URL{Scheme: "postgres", User: url.User("test"), Host: s.Addr(), Path: "/postgres", RawQuery: "sslmode=disable"}
	s.Name = at.String()
	if err = s.Restart(); err != nil {
		s.Close()
	}
	return err
}

// data is the folder of the data.
func (s *Server) data() string { return filepath.Join(s.dir, "data") }
