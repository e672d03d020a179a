package redistest_test

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// orphanEnv makes the test binary start deployments, print their process ids and
// wait.
const orphanEnv = "REDISTEST_ORPHAN_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		runOrphan(dir)
		return
	}
	// the tests wait more than they work
	flag.Parse()
	_ = flag.Set("test.parallel", "6")
	goleak.VerifyTestMain(m)
}

func runOrphan(dir string) {
	var pids []string
	for _, top := range []redistest.Topology{redistest.Standalone, redistest.Sentinel} {
		d, err := redistest.RunDeployment(filepath.Join(dir, string(top)), top)
		if err != nil {
			panic(err)
		}
		for _, s := range append(d.Servers(), d.Sentinels()...) {
			pids = append(pids, strconv.Itoa(s.PID()))
		}
	}
	runtime.GC()
	_, _ = os.Stdout.WriteString(strings.Join(pids, " ") + "\n")
	select {}
}

func TestStartAnswersBelow50000(t *testing.T) {
	s := redistest.Start(t)
	if got := s.Do("PING"); got != any("PONG") {
		t.Fatalf("got %v, want PONG", got)
	}
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(port); err != nil || n >= 50000 {
		t.Fatalf("got port %s, want one below 50000", port)
	}
	if got, want := s.URL(), "redis://"+s.Addr(); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	s := start(t)
	pid := s.PID()
	s.Close()
	s.Close()
	if alive(pid) {
		t.Fatalf("process %d is still there", pid)
	}
	if err, ok := s.Do("PING").(error); !ok {
		t.Fatalf("got %v, want an error", err)
	}
}

func TestServerEndsWithAKilledTestBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a server whose test binary was killed")
	}
	start(t) // skips where redis-server is missing
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(line)
	if len(pids) != 1+3+3 {
		t.Fatalf("got process ids %q, want 7", pids)
	}
	for _, pid := range pids {
		awaitEnd(t, pid)
	}
}

// awaitEnd waits until the process is gone, or ends it and fails t.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if !alive(n) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	if p, err := os.FindProcess(n); err == nil {
		_ = p.Kill()
	}
	t.Errorf("server %d outlived its test binary", n)
}

func TestServersRunSideBySide(t *testing.T) {
	a, b := start(t), start(t)
	a.Do("SET", "k", "a")
	if got := b.Do("GET", "k"); got != nil {
		t.Fatalf("got %v, want nil", got)
	}
}

func TestPassword(t *testing.T) {
	s := start(t, redistest.Password("s3 cret/@"))
	if got := s.String("PING"); got != "PONG" {
		t.Fatalf("got %q, want PONG", got)
	}
	if got, want := s.URL(), "redis://:s3%20cret%2F%40@"+s.Addr(); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	err, _ := redistest.At(s.Addr(), "").Do("PING").(error)
	if err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Fatalf("got %v, want NOAUTH", err)
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	s := start(t, redistest.MaxMemory("4mb", "allkeys-lru"), redistest.Conf("lua-time-limit 123"))
	for name, want := range map[string]string{"maxmemory": "4194304", "maxmemory-policy": "allkeys-lru", "lua-time-limit": "123"} {
		if got := s.Map("CONFIG", "GET", name); got[name] != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func TestBadConfigurationIsExplained(t *testing.T) {
	start(t)
	_, err := redistest.Run(t.TempDir(), redistest.Conf("no-such-directive 1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Fatalf("got %v, want an error that names the directive", err)
	}
}

func TestPauseAndResume(t *testing.T) {
	s := start(t)
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	s.Pause()
	if _, err := nc.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	_ = nc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := nc.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("paused server answered %q, %v", buf[:n], err)
	}
	s.Resume()
	_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := nc.Read(buf); string(buf[:n]) != "+PONG\r\n" {
		t.Fatalf("got %q, %v, want the answer after Resume", buf[:n], err)
	}
}

func TestKillWhilePaused(t *testing.T) {
	s := start(t)
	s.Pause()
	s.Kill()
	s.Restart()
	if got := s.String("PING"); got != "PONG" {
		t.Fatalf("got %q, want PONG", got)
	}
}

func TestRestartKeepsAddressAndWithAOFTheData(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []redistest.Option
		want any
	}{
		"without persistence": {nil, nil},
		"append-only file":    {[]redistest.Option{redistest.AOF()}, "v"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, tc.opts...)
			addr, run := s.Addr(), runID(s)
			s.String("SET", "k", "v")
			s.Kill()
			s.Restart()
			if s.Addr() != addr || runID(s) == run {
				t.Fatalf("got %s run %s, want a new run on %s", s.Addr(), runID(s), addr)
			}
			if got := s.Do("GET", "k"); got != tc.want {
				t.Fatalf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMissingServer(t *testing.T) {
	t.Setenv(redistest.ProgramEnv, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := redistest.Run(t.TempDir()); !errors.Is(err, redistest.ErrMissing) {
		t.Fatalf("got %v, want ErrMissing", err)
	}
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		if got := outcome(t); got != want {
			t.Fatalf("with CI=%q Start ended in %q, want %q", ci, got, want)
		}
	}
}

// Tests on a server that somebody chose fail where it is missing: nothing must pass
// for a run on it that was none.
func TestChosenServer(t *testing.T) {
	path, err := exec.LookPath(cmp.Or(os.Getenv(redistest.ProgramEnv), "redis-server"))
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("CI", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ProgramEnv, filepath.Join(t.TempDir(), "valkey-server"))
	if got := outcome(t); got != "fatal" {
		t.Errorf("without the chosen server Start ended in %q, want fatal", got)
	}
	// The name of the program is its own.
	chosen := filepath.Join(t.TempDir(), "other-server")
	if err := os.WriteFile(chosen, []byte("#!/bin/sh\nexec "+path+` "$@"`), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(redistest.ProgramEnv, chosen)
	d := redistest.StartDeployment(t, redistest.Sentinel)
	if info := d.Sentinels()[0].String("INFO", "server"); !strings.Contains(info, "_mode:sentinel") {
		t.Errorf("got %q, want a Sentinel", info)
	}
}

// outcome returns how Start ends its test.
func outcome(t *testing.T) string {
	tb := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(tb)
	}()
	<-done
	return tb.got
}

// verdict notes how a test ended instead of ending it.
type verdict struct {
	testing.TB
	got string
}

func (v *verdict) Skip(...any)  { v.got = "skip"; runtime.Goexit() }
func (v *verdict) Fatal(...any) { v.got = "fatal"; runtime.Goexit() }

func start(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	return redistest.Start(t, opts...)
}

func runID(s *redistest.Server) string {
	for line := range strings.Lines(s.String("INFO", "server")) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// alive reports whether the process is there and no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[slices.Index(b, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}
