package serve

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func TestOwnHost(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:7070": true, "127.0.0.1:80": true, "[::1]:7070": true, "::1": true, "127.8.8.8": true,
		"app.localhost:1": true, "evil.example": false, "localhost.evil.example": false, "10.0.0.1": false, "": false, "127.0.0.1.nip.io": false,
	} {
		if got := (&Authenticator{Options: &Options{}, onlyHosts: true}).accepts(host); got != want {
			t.Errorf("%q: got %v, want %v", host, got, want)
		}
	}
}

// Passwords are asked for again only when they were wrong, or not used for a while.
func TestPasswordsAreRemembered(t *testing.T) {
	g := authenticatorOf(t, "ada:"+hash(t, "lovelace")+"\n")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("ada", "lovelace")
	for range 3 {
		if user, status := g.identify(r); user != "ada" || status != 200 {
			t.Fatalf("the right password: got %q, %d", user, status)
		}
	}
	r.SetBasicAuth("ada", "wrong")
	if _, status := g.identify(r); status != 401 {
		t.Fatalf("a wrong password: got %d", status)
	}
	if len(g.proved.list) != 1 {
		t.Errorf("got %d passwords that are remembered, want the right one", len(g.proved.list))
	}
	for key, p := range g.proved.list {
		p.until = time.Now().Add(-time.Second)
		g.proved.list[key] = p
	}
	g.users["ada"] = []byte(hash(t, "changed"))
	r.SetBasicAuth("ada", "lovelace")
	if _, status := g.identify(r); status != 401 {
		t.Error("a password is believed for longer than it is remembered")
	}
}

func authenticatorOf(t *testing.T, users string) *Authenticator {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := NewAuthenticator(&Options{BasicFile: file}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A wrong password costs the same for every name: for one that nobody has, and for users
// whose hashes differ in cost.
func TestWrongPasswordsCostTheSame(t *testing.T) {
	slow, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost+3)
	if err != nil {
		t.Fatal(err)
	}
	g := authenticatorOf(t, "fast:"+hash(t, "x")+"\nslow:"+string(slow)+"\n")
	work := 0 // one more in cost is twice the work
	g.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Fatal(err)
		}
		work += 1 << cost
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	for _, name := range []string{"fast", "slow", "nobody"} {
		if work = 0; g.right(t.Context(), name, "wrong") || work != 1<<(bcrypt.MinCost+3) {
			t.Errorf("%s: a wrong password costs %d, want %d", name, work, 1<<(bcrypt.MinCost+3))
		}
	}
}

// An address that guesses is slowed down. A user who has logged in there is not. The log
// has a line now and then, without what may be a password.
func TestGuessesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := authenticatorOf(t, "ada:"+hash(t, "lovelace")+"\n")
		g.log = slog.New(slog.NewTextHandler(&log, nil))
		login := func(from, user, password string) int {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = from
			r.SetBasicAuth(user, password)
			_, status := g.identify(r)
			return status
		}
		login("10.0.0.1:1", "ada", "lovelace")
		count := map[int]int{}
		for range 200 {
			count[login("10.0.0.1:2", "hunter2", "x")]++
		}
		if count[401] != guessBurst || count[429] != 200-guessBurst {
			t.Errorf("got %v of 200 wrong passwords, want %d times 401 and then 429", count, guessBurst)
		}
		if status := login("10.0.0.1:3", "ada", "lovelace"); status != 200 {
			t.Errorf("who has logged in there: got %d, want 200", status)
		}
		if status := login("10.0.0.2:1", "ada", "wrong"); status != 401 {
			t.Errorf("another address: got %d, want 401", status)
		}
		if status := login("[2001:db8::1]:1", "ada", "lovelace"); status != 200 {
			t.Errorf("another address: got %d, want 200", status)
		}
		time.Sleep(guessBurst * guessEvery)
		if status := login("10.0.0.1:2", "ada", "wrong"); status != 401 {
			t.Errorf("after a while: got %d, want 401", status)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "address=10.0.0.1") ||
			!strings.Contains(log.String(), "not_logged_before=200") || !strings.Contains(log.String(), "user=ada") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("got %d lines, want 2: %s", lines, &log)
		}
	})
}

func TestGuessersAreForgotten(t *testing.T) {
	f := failures{until: map[netip.Addr]time.Time{}}
	for i := range 3 * mostGuesser {
		f.take(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(f.until) > mostGuesser {
		t.Errorf("got %d addresses, want %d at most", len(f.until), mostGuesser)
	}
	for remote, want := range map[string]string{
		"10.0.0.1:7": "10.0.0.1", "[::ffff:10.0.0.1]:7": "10.0.0.1", "[2001:db8::1:2:3:4]:7": "2001:db8::", "[::1]:7": "::1", "[fe80::1%eth0]:7": "fe80::",
	} {
		if got := peerOf(remote).String(); got != want {
			t.Errorf("%s: got %s, want %s", remote, got, want)
		}
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.done); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// Who does not read an answer does not keep its connection.
func TestAnswersThatNobodyReadsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		l := newFairListener(&oneConn{make(chan net.Conn, 1), make(chan struct{})}, (&Authenticator{}).mostConns)
		l.Listener.(*oneConn).conns <- far
		server := newServer(http.HandlerFunc(healthy))
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		defer func() {
			server.Close()
			<-served
		}()
		if _, err := near.Write([]byte("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeLimit + time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.conns) != 0 {
			t.Error("the connection is still there")
		}
	})
}

// hash is that of a password, cheap to compare.
func hash(t *testing.T, password string) string {
	t.Helper()
	text, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
