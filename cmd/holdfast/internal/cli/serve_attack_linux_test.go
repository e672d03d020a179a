package cli

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
)

// What serve allows one address.
const (
	ofAddress = 128 // connections
	guesses   = 10  // wrong passwords at once for a user, and one each second
)

// besieged is a server with one lock, and its owner, whose page is loaded all the time.
type besieged struct {
	*served
	hold  *holdfast.Lock
	addr  string
	owner func(*http.Request)
}

// held takes the lock "job".
func (s *site) held() *holdfast.Lock {
	s.t.Helper()
	lock, err := s.locker("ci-runner-7@build:4121").TryLock(s.t.Context(), "job")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = lock.Unlock() })
	return lock
}

func besiege(t *testing.T) *besieged {
	s := newSite(t)
	users := configure(t, "users", "ada:"+hash(t, "lovelace")+"\n")
	b := &besieged{hold: s.held(), owner: func(r *http.Request) { r.SetBasicAuth("ada", "lovelace") }}
	b.served = s.serve("--basic-file", users, "--allow-unlock", "--operator", "ada", "--host", "locks.example")
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.addr = u.Host
	return b
}

// endure has the owner look for d, and fails the test if an answer takes longer than a
// second, or the lock is not held at the end.
func (b *besieged) endure(d time.Duration) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		for _, path := range []string{"", "lock?name=job", "healthz"} {
			asked := await.NewWatch(b)
			if code, body := b.get(path, b.owner); code != 200 {
				b.Fatalf("/%s: got status %d: %s", path, code, body)
			}
			if took := asked.Took(); took > time.Second {
				b.Fatalf("/%s took %v, beside %v in which the machine stood still", path, took, asked.Late())
			}
		}
	}
	if err := b.hold.Err(); err != nil {
		b.Errorf("the lock is gone: %v", err)
	}
	if log := b.stderr.String(); strings.Contains(log, "force-unlocked") {
		b.Errorf("a hold was forced: %s", log)
	}
}

// from returns a dialer of another address of this machine.
func from(ip string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 5 * time.Second}
}

// Connections that send requests, or half of one, and never read the answers keep nobody
// out, not even an owner at the same address, and only so many stay.
func TestServeOutlastsClientsThatNeverRead(t *testing.T) {
	b := besiege(t)
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { // so that little is in between
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	var silent []net.Conn
	t.Cleanup(func() {
		for _, c := range silent {
			c.Close()
		}
	})
	requests := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: locks.example\r\n\r\n", 100))
	for i := range 300 {
		c, err := dialer.DialContext(t.Context(), "tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, c)
		sent := requests
		if i%2 == 1 {
			sent = requests[:20]
		}
		_, _ = c.Write(sent) // which the kernel takes; the connection may be closed by then
	}
	b.endure(time.Second)
	var closed atomic.Int64
	var all sync.WaitGroup
	for _, c := range silent {
		all.Go(func() {
			_, _ = io.Copy(io.Discard, c)
			closed.Add(1)
		})
	}
	await.Until(t, 5*time.Second, "no more connections stay than an address may have", func() bool { return closed.Load() >= 300-ofAddress })
	for _, c := range silent {
		c.Close()
	}
	all.Wait()
}

// Clients from many addresses open streams of updates, and never read them. They cost a bounded
// number of goroutines and a bounded amount of memory, and an owner still gets pages and a stream.
func TestServeOutlastsStreamsThatNobodyReads(t *testing.T) {
	s := newSite(t)
	b := &besieged{hold: s.held(), owner: func(*http.Request) {}}
	b.served = s.serve() // without users, anybody may open a stream
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	before, memory := runtime.NumGoroutine(), inUse()
	const addresses, each = 100, 5
	for i := range addresses * each {
		dialer := from(fmt.Sprintf("127.0.0.%d", 10+i%addresses))
		c, err := dialer.DialContext(t.Context(), "tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = c.Write([]byte("GET /events?view= HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	b.endure(2 * time.Second)
	stream, err := http.Get(b.url + "events?view=")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); stream.StatusCode != http.StatusOK || err != nil {
		t.Errorf("the stream of an owner: got status %d, %q, error %v", stream.StatusCode, line, err)
	}
	const perClient, bytesPerClient = 3, 100 << 10
	if n, most := runtime.NumGoroutine()-before, perClient*addresses*each; n > most {
		t.Errorf("got %d goroutines more, want %d at most", n, most)
	}
	if n, most := inUse()-memory, int64(bytesPerClient*addresses*each); n > most {
		t.Errorf("got %d bytes more, want %d at most", n, most)
	}
	t.Logf("%d goroutines and %d KB more", runtime.NumGoroutine()-before, (inUse()-memory)>>10)
}

// inUse returns how many bytes this process has for its heap and its stacks, without garbage.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestServeOutlastsWrongLogins(t *testing.T) {
	b := besiege(t)
	b.get("", b.owner)
	counts, stop := map[int]int{}, make(chan struct{})
	var mu sync.Mutex
	var guessers sync.WaitGroup
	for _, ip := range []string{"127.0.0.1", "127.0.0.3"} { // one is the owner's
		transport := &http.Transport{DialContext: from(ip).DialContext}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		guessers.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond) // 200 a second
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-tick.C:
				case <-stop:
					return
				}
				r, _ := http.NewRequest(http.MethodPost, b.url+"unlock", strings.NewReader("confirm=job"))
				r.SetBasicAuth([]string{"ada", "eve"}[i%2], fmt.Sprint("guess", i))
				response, err := client.Do(r)
				if err != nil {
					continue
				}
				response.Body.Close()
				mu.Lock()
				counts[response.StatusCode]++
				mu.Unlock()
			}
		})
	}
	began := await.NewWatch(b)
	b.endure(1500 * time.Millisecond)
	await.Until(t, 10*time.Second, "twenty guesses are refused unread", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return counts[http.StatusTooManyRequests] >= 20
	})
	close(stop)
	guessers.Wait()
	lasted := began.Took() + began.Late()                                            // the server counts all of it
	if most := 2 * 2 * (guesses + 2 + int(lasted/time.Second)); counts[401] > most { // two users at two addresses
		t.Errorf("got %v, want 401 for the first ones only", counts)
	}
	if lines := strings.Count(b.stderr.String(), "login failed"); lines < 1 || lines > 1+int(lasted/(10*time.Second))+1 {
		t.Errorf("got %d lines of failed logins, want few: %s", lines, b.stderr)
	}
}

// A foreign site has the owner's browser, which knows the password, load many pages.
func TestServeOutlastsAForeignSite(t *testing.T) {
	b := besiege(t)
	for i := range 70 {
		for _, path := range []string{"?q=%d", "events?view=&q=%d", "lock?name=x%d"} {
			code, _ := b.get(fmt.Sprintf(path, i), b.owner, func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
				r.Header.Set("Sec-Fetch-Mode", "no-cors")
				r.Header.Set("Sec-Fetch-Dest", "image")
			})
			if code != http.StatusForbidden {
				t.Fatalf("%s: got status %d, want 403", path, code)
			}
		}
		b.get(fmt.Sprintf("?q=%d", i), b.owner) // a browser that says nothing
	}
	r, _ := http.NewRequest(http.MethodGet, b.url+"events?view=", nil)
	b.owner(r)
	response, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the owner's stream: got status %d, want 200", response.StatusCode)
	}
	b.endure(500 * time.Millisecond)
}

// A page of a foreign site whose name leads here is of the same origin for the browser: it
// sends any header, and the form that forces a lock.
func TestServeOutlastsAReboundPage(t *testing.T) {
	s := newSite(t)
	b := &besieged{hold: s.held(), owner: func(r *http.Request) { r.Header.Set("X-User", "ada") }}
	b.served = s.serve("--auth-header", "X-User", "--trusted", "127.0.0.1", "--allow-unlock", "--operator", "ada")
	_, form := b.get("unlock?name=job", b.owner) // as the owner sees it: the attacker guesses all of it
	fields := url.Values{"confirm": {"job"}, "reason": {"evil"}}
	for _, m := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(form, -1) {
		fields.Set(m[1], m[2])
	}
	if len(fields) < 6 {
		t.Fatalf("got fields %v of %s", fields, form)
	}
	post := func(host string) int {
		r, _ := http.NewRequest(http.MethodPost, b.url+"unlock", strings.NewReader(fields.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		b.owner(r)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Host = host
		b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		response, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for range 20 {
		if code := post("evil.example:7070"); code != http.StatusForbidden {
			t.Fatalf("a rebound page: got status %d, want 403", code)
		}
	}
	b.endure(500 * time.Millisecond)
	if code := post(""); code != http.StatusSeeOther {
		t.Errorf("the owner himself: got status %d, want 303: the attack above proves nothing", code)
	}
}
