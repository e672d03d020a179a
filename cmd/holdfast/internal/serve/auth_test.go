package serve

import (
	"bytes"
	"fmt"
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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
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
	g, err := NewAuthenticator(&Options{BasicFile: file}, slog.New(slog.DiscardHandler), output.Silent())
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
		if count[401] != 10 || count[429] != 190 {
			t.Errorf("got %v of 200 wrong passwords, want 10 times 401 and then 429", count)
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
		time.Sleep(ofUser().burst)
		if status := login("10.0.0.1:2", "ada", "wrong"); status != 401 {
			t.Errorf("after a while: got %d, want 401", status)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "address=10.0.0.1") ||
			!strings.Contains(log.String(), "not_logged_before=200") || !strings.Contains(log.String(), "user=ada") || strings.Contains(log.String(), "hunter2") {
			t.Errorf("got %d lines, want 2: %s", lines, &log)
		}
	})
}

// logins makes the comparison of passwords cheap: all users have the password "right". It
// returns a function that sends a login from a connection, through proxies if
// `forwarded` is not "".
func (g *Authenticator) logins() func(from, forwarded, user, password string) (status int) {
	g.compare = func(_, password []byte) error {
		if string(password) != "right" {
			return bcrypt.ErrMismatchedHashAndPassword
		}
		return nil
	}
	return func(from, forwarded, user, password string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		if forwarded != "" {
			r.Header.Set("X-Forwarded-For", forwarded)
		}
		r.SetBasicAuth(user, password)
		_, status := g.identify(r)
		return status
	}
}

// A stranger with the address of a user, as behind a proxy, keeps out only the user whose
// password he guesses. An address that guesses for many users is slowed down, too.
func TestOneStrangerDoesNotStopAllLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := authenticatorOf(t, "ada:"+hash(t, "x")+"\nbob:"+hash(t, "x")+"\n")
		login := g.logins()
		for i := range 12 {
			if status := login("10.0.0.1:1", "", "ada", fmt.Sprint("guess", i)); (status == 429) != (i >= 10) {
				t.Errorf("guess %d: got %d", i, status)
			}
		}
		if status := login("10.0.0.1:1", "", "ada", "right"); status != 429 {
			t.Errorf("the user whose password was guessed: got %d, want 429", status)
		}
		if status := login("10.0.0.1:1", "", "bob", "right"); status != 200 {
			t.Errorf("another user at the same address: got %d, want 200", status)
		}
		time.Sleep(time.Minute)
		count := map[int]int{}
		for i := range 200 {
			count[login("10.0.0.1:1", "", fmt.Sprint("user", i), "x")]++
		}
		if count[401] != 50 || count[429] != 150 {
			t.Errorf("got %v of 200 wrong passwords for 200 users, want 50 times 401", count)
		}
		began, tries := time.Now(), 0
		for time.Since(began) < 10*time.Second {
			if login("10.0.0.1:1", "", fmt.Sprint("user", tries%100), "x") == 401 {
				tries++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if tries < 45 || tries > 51 {
			t.Errorf("got %d tries of an address in 10s, want 50", tries)
		}
	})
}

// Each client of a trusted proxy is counted by the address that the proxy reports. Only a
// trusted proxy can report one.
func TestClientsOfATrustedProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := authenticatorOf(t, "ada:"+hash(t, "lovelace")+"\n")
		g.trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		login := g.logins()
		for i := range 11 {
			login("10.0.0.1:1", fmt.Sprintf("198.51.100.%d, 203.0.113.7", i), "ada", "x")
		}
		for _, c := range []struct {
			from, forwarded string
			want            int
		}{
			{"10.0.0.1:1", "203.0.113.7", 429},
			{"10.0.0.1:1", "203.0.113.7:4711", 429},
			{"10.0.0.1:1", "203.0.113.7, 10.0.0.2", 429}, // through two proxies
			{"10.0.0.1:1", "x, 203.0.113.7", 429},
			{"10.0.0.1:1", "203.0.113.8", 401},
			{"10.0.0.1:1", "203.0.113.7, x", 401}, // counts as the proxy itself
			{"10.0.0.1:1", "", 401},
			{"203.0.113.9:1", "203.0.113.7", 401}, // not a proxy
		} {
			if got := login(c.from, c.forwarded, "ada", "x"); got != c.want {
				t.Errorf("%s says %q: got %d, want %d", c.from, c.forwarded, got, c.want)
			}
		}
		count := map[int]int{}
		for i := range 1000 { // a proxy that passes on what its client says
			count[login("10.0.0.9:1", fmt.Sprintf("198.51.%d.%d", i/200, i%200), "ada", "x")]++
		}
		if count[401] != 500 {
			t.Errorf("got %v of 1000 addresses through one proxy, want 500 times 401", count)
		}
	})
}

func TestGuessersAreForgotten(t *testing.T) {
	f := newFailures()
	for i := range 3 * mostGuesser {
		peer := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		f.take(f.sources(peer, peer, "ada"))
	}
	if len(f.until) > mostGuesser {
		t.Errorf("got %d sources, want %d at most", len(f.until), mostGuesser)
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
