package hostiletest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server is a server that answers each connection with the function play.
type server struct {
	addr  string
	conns atomic.Int64 // how many connections there were
}

// play answers one connection. It returns when the connection has ended, or to close it.
type play func(net.Conn)

// serve starts a server, with TLS if config is not nil. It ends with t.
func serve(t *testing.T, config *tls.Config, answer play) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String()}
	var open sync.Map
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			open.Store(conn, true)
			wg.Go(func() {
				defer conn.Close()
				if config != nil {
					answer(tls.Server(conn, config))
				} else {
					answer(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() != nil || true })
		wg.Wait()
	})
	return s
}

// says sends a text, then reads until the connection ends.
func says(text string) play {
	return func(conn net.Conn) {
		go func() { _, _ = io.WriteString(conn, text) }()
		_, _ = io.Copy(io.Discard, conn)
	}
}

// repeats sends `first`, then `text` again and again until the connection ends.
func repeats(first, text string) play {
	return func(conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		if _, err := io.WriteString(conn, first); err == nil {
			flood(conn, text)
		}
	}
}

// flood sends a text again and again until the connection ends.
func flood(conn io.Writer, text string) {
	block := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for {
		if _, err := conn.Write(block); err != nil {
			return
		}
	}
}

// program builds the command line tool, without the race detector, which takes much memory.
// HOLDFAST_HOSTILE_PROGRAM names another one, such as that of an earlier version.
var program = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("HOLDFAST_HOSTILE_PROGRAM"); p != "" {
		return p, nil
	}
	out := filepath.Join(folder, "holdfast")
	if text, err := exec.Command("go", "build", "-o", out, "github.com/holdfast-go/holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		return "", errors.New(string(text))
	}
	return out, nil
})

// result is how the program ended.
type result struct {
	status  int
	stderr  string
	took    time.Duration
	memory  int64 // the most that it had, in KB
	stopped bool  // it had to be killed
}

// run runs the program, and kills it after the time limit.
func run(t *testing.T, limit time.Duration, args ...string) result {
	t.Helper()
	holdfast, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var stderr limited
	cmd := exec.CommandContext(ctx, holdfast, args...)
	cmd.Stderr, cmd.Dir = &stderr, t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	memory := watchMemory(cmd.Process.Pid)
	_ = cmd.Wait() // the status says how it ended
	return result{took: time.Since(begun), stderr: string(stderr.text), stopped: ctx.Err() != nil, status: cmd.ProcessState.ExitCode(), memory: <-memory}
}

// watchMemory reads again and again how much memory a process has had at most, and sends the last
// number when the process has ended. The usage that the system reports at the end is no help: it
// begins with the memory of the parent.
func watchMemory(pid int) <-chan int64 {
	most := make(chan int64, 1)
	go func() {
		var last int64
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := strings.Cut(string(status), "VmHWM:")
			if err != nil || !found {
				most <- last
				return
			}
			_, _ = fmt.Sscan(rest, &last)
			<-time.After(2 * time.Millisecond)
		}
	}()
	return most
}

// limited keeps the beginning of what is written.
type limited struct{ text []byte }

func (l *limited) Write(b []byte) (int, error) {
	l.text = append(l.text, b[:min(len(b), 16<<10-len(l.text))]...)
	return len(b), nil
}

const (
	mostMemory = 100 << 10
	// The program needs a time of its own to start, and to close what it opened.
	grace = 2500 * time.Millisecond
	// mostConns is how many connections a second the program may open.
	mostConns = 100
)

// list lists the locks of the store at a URL, with more flags, and judges how that ended.
func (s *server) list(t *testing.T, url, text string, flags ...string) {
	t.Helper()
	r := run(t, 5*listTime, append([]string{"ls", "-u", url, "--timeout", listTime.String()}, flags...)...)
	s.judge(t, r, listTime, text)
}

// selfSigned returns a certificate for this machine.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// judge fails the test if the program did not end as it should.
func (s *server) judge(t *testing.T, r result, timeout time.Duration, text string) {
	t.Helper()
	t.Logf("status %d after %v, %d MB, %d connections: %s", r.status, r.took.Round(time.Millisecond), r.memory>>10, s.conns.Load(), strings.TrimSpace(r.stderr))
	switch {
	case r.stopped || r.took > timeout+grace:
		t.Errorf("it ran for %v; its time was %v", r.took, timeout)
	case strings.Contains(r.stderr, "goroutine "):
		t.Error("it ended with a panic")
	case r.status <= 0 || r.status == 2:
		t.Errorf("it ended with status %d", r.status)
	}
	if r.memory > mostMemory {
		t.Errorf("it took %d MB", r.memory>>10)
	}
	if most := int64(mostConns * (1 + r.took.Seconds())); s.conns.Load() > most {
		t.Errorf("it opened %d connections in %v", s.conns.Load(), r.took)
	}
	if !regexp.MustCompile(text).MatchString(r.stderr) {
		t.Errorf("got the text %q, want %q", r.stderr, text)
	}
}
