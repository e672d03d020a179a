package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/internal/await"
)

// visitor uses a page that is served.
type visitor struct {
	*testing.T
	*site
	url  string
	http *http.Client
	end  func() // ends the page, and returns when it is gone
}

// visit serves a page over servers, none for stand-ins. It ends with the test, and must end
// cleanly.
func visit(t *testing.T, lease time.Duration, urls ...string) *visitor {
	t.Helper()
	o := PageOptions{Worker: []string{os.Args[0]}, Env: append(os.Environ(), workerVariable+"=1", "GORACE=atexit_sleep_ms=0"), lease: lease}
	for _, u := range urls {
		o.Access = append(o.Access, open.Access{URL: u})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSite(t.Context(), o, listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, listener) }()
	v := &visitor{T: t, site: s, url: "http://" + s.Self, http: &http.Client{Transport: &http.Transport{}}}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v.end = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.close()
		v.http.CloseIdleConnections()
	})
	t.Cleanup(v.end)
	return v
}

// until waits until the record of a lock is as a function says.
func (v *visitor) until(what, name string, seen func(admin.Record) bool) {
	v.Helper()
	await.Until(v.T, 15*time.Second, what, func() bool {
		list, err := admin.New(v.Servers[0].backend).Get(v.Context(), name)
		return err == nil && seen(list[0])
	})
}

// works waits until an instance has reported that it holds the lock, and that the ledger has
// accepted its write. The store knows of the grant earlier: a process that is paused in between
// has not heard of it.
func (v *visitor) works(instance int) {
	v.Helper()
	await.Until(v.T, 15*time.Second, fmt.Sprintf("instance %d works", instance), func() bool {
		return slices.ContainsFunc(v.timeline.copied(time.Now()).running(instance), func(r *run) bool {
			return r.now().phase == holds && slices.ContainsFunc(r.events, func(e event) bool { return e.kind == wrote })
		})
	})
}

func isHeld(r admin.Record) bool { return r.Holders == 1 }
func wanted(r admin.Record) bool { return r.Holders == 1 && r.Listeners > 0 }

// post sends a form and returns the answer.
func (v *visitor) post(path string, form ...string) (status int, body string) {
	v.Helper()
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	r, err := v.http.PostForm(v.url+path, values)
	if err != nil {
		v.Fatal(err)
	}
	return r.StatusCode, read(v.T, r.Body)
}

// must sends a form that has to be obeyed.
func (v *visitor) must(path string, form ...string) string {
	v.Helper()
	status, body := v.post(path, form...)
	if status != http.StatusOK && status != http.StatusSeeOther {
		v.Fatalf("%s %q: got status %d, %s", path, form, status, body)
	}
	return body
}

func read(t *testing.T, body io.ReadCloser) string {
	t.Helper()
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// page returns the page of scenes.
func (v *visitor) page() string {
	v.Helper()
	r, err := v.http.Get(v.url + "/demo")
	if err != nil {
		v.Fatal(err)
	}
	return read(v.T, r.Body)
}

// ask sends a request that wants JSON, and returns its answer later.
func ask[T any](v *visitor, path string) func() (int, T) {
	type reply struct {
		status int
		value  T
		err    error
	}
	replies := make(chan *reply, 1)
	go func() {
		a := &reply{}
		defer func() { replies <- a }()
		r, err := http.NewRequest(http.MethodPost, v.url+path, nil)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Accept", "application/json")
		answer, err := v.http.Do(r)
		if a.err = err; err == nil {
			defer answer.Body.Close()
			a.status, a.err = answer.StatusCode, json.NewDecoder(answer.Body).Decode(&a.value)
		}
	}()
	return func() (int, T) {
		v.Helper()
		a := <-replies
		if a.err != nil {
			v.Fatalf("%s: %v", path, a.err)
		}
		return a.status, a.value
	}
}

func startStandIn(t *testing.T) *StandIn {
	t.Helper()
	server, err := StartStandIn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func TestOneWorksTheOtherWaits(t *testing.T) {
	v := visit(t, pageLease)
	first := ask[claimResult](v, "/lock1?work=1s")
	v.until("1 holds", "lock", isHeld)
	second := ask[claimResult](v, "/lock2?work=50ms")
	status, a := first()
	if status != http.StatusOK || a.Outcome != outcomeDone || a.Held < 1000 || a.Token == 0 || a.Write != "accepted" || a.Instance != "instance 1" {
		t.Errorf("the first: got %d, %+v", status, a)
	}
	status, b := second()
	if status != http.StatusOK || b.Outcome != outcomeDone || b.Token <= a.Token || b.Waited > a.Held {
		t.Errorf("the second: got %d, %+v, after %+v", status, b, a)
	}
	if text := v.must("/lock2?work=1ms"); !strings.HasPrefix(text, "instance 2 waited ") || !strings.Contains(text, "released the lock.") {
		t.Errorf("got %q", text)
	}
}

// A holder that cannot renew loses the lock, and the ledger refuses what it writes then.
func TestLateWriteIsRefused(t *testing.T) {
	for fault, remedy := range map[string]string{"pause": "resume", "cut": "mend"} {
		t.Run(fault, func(t *testing.T) {
			if fault == "pause" && !canPause {
				t.Skip("this system cannot pause a process")
			}
			v := visit(t, time.Second)
			first := ask[claimResult](v, "/lock1?work=30s")
			v.works(1)
			v.must("/instance", "n", "1", "do", fault)
			if _, b := ask[claimResult](v, "/lock2?work=10ms")(); b.Outcome != outcomeDone {
				t.Errorf("the next holder: got %+v", b)
			}
			v.must("/instance", "n", "1", "do", remedy)
			if status, a := first(); status != http.StatusConflict || a.Outcome != outcomeLost || a.Write != "refused" {
				t.Errorf("got %d, %+v", status, a)
			}
		})
	}
}

// A person who uses the buttons of the page sees the story of a late write.
func TestShow(t *testing.T) {
	if !canPause {
		t.Skip("this system cannot pause a process")
	}
	v := visit(t, 2*time.Second)
	shows := func(texts ...string) {
		t.Helper()
		var page string
		await.Until(t, 15*time.Second, fmt.Sprintf("the page shows %q", texts), func() bool {
			page = v.page()
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(page, text) })
		})
	}
	button := func(do string, instance int) string { return fmt.Sprintf("value=%q id=\"%s%d\"", do, do, instance) }
	shows(`id="startboth">`, "Nobody holds the lock.", `id="start1"`)
	v.must("/both", "work", "1m", "back", "1")
	await.Until(t, 15*time.Second, "somebody works", func() bool { return v.timeline.copied(time.Now()).holding() != nil })
	holder := v.timeline.copied(time.Now()).holding().instance
	other := 3 - holder
	v.works(holder)
	shows(fmt.Sprintf("Instance %d holds the lock and works. Instance %d waits.", holder, other), button("pause", holder), button("kill", other), `aria-disabled="true"`, "▾ granted")
	v.must("/both", "work", "1m")
	if one, two := v.timeline.states(1), v.timeline.states(2); len(one) != 1 || len(two) != 1 {
		t.Errorf("both run, and the button started more: %d and %d processes", len(one), len(two))
	}
	v.must("/instance", "n", fmt.Sprint(holder), "do", "pause")
	shows(button("resume", holder), "holds, but is paused")
	v.works(other)
	shows(fmt.Sprintf("Instance %d is paused: it does not know that its lease is over.", holder), "lease over</text>", "when the lease ran out")
	v.must("/instance", "n", fmt.Sprint(holder), "do", "resume")
	shows(fmt.Sprintf("The ledger has refused the late write of instance %d.", holder), "late write refused</span>", fmt.Sprintf(`id="start%d"`, holder), "the ledger refuses its write")
	if page := v.page(); strings.Contains(page, fmt.Sprintf(`id="kill%d"`, holder)) {
		t.Error("the page offers to kill an instance without a process")
	}
	v.must("/both", "work", "1ms")
	await.Until(t, 15*time.Second, "the first one runs again", func() bool { return len(v.timeline.states(holder)) == 1 })
	v.must("/instance", "n", fmt.Sprint(other), "do", "kill")
	shows("killed</span>", "has the lock until its lease ends")
}

func TestBothStartsWhatDoesNotRun(t *testing.T) {
	v := visit(t, pageLease)
	v.must("/lock1?work=1m", "back", "1")
	v.works(1)
	v.must("/both")
	v.until("2 waits", "lock", wanted)
	if one, two := v.timeline.states(1), v.timeline.states(2); len(one) != 1 || len(two) != 1 {
		t.Errorf("got %d and %d processes, want one of each instance", len(one), len(two))
	}
}

// However many browsers watch, the store is asked the same.
func TestPollsDoNotDependOnBrowsers(t *testing.T) {
	v := visit(t, pageLease)
	v.page()
	samples := func() int { return len(v.timeline.copied(time.Now()).samples) }
	await.Until(t, 15*time.Second, "the first poll", func() bool { return samples() > 0 })
	began, before := time.Now(), samples()
	for range 100 {
		v.page()
	}
	if most := 2 + int(time.Since(began)/pollEvery); samples()-before > most {
		t.Errorf("got %d polls in %v, want at most %d", samples()-before, time.Since(began), most)
	}
}

func TestKilledHolder(t *testing.T) {
	v := visit(t, 500*time.Millisecond)
	first := ask[claimResult](v, "/lock1?work=30s")
	v.until("1 holds", "lock", isHeld)
	second := ask[claimResult](v, "/lock2?work=10ms")
	v.must("/instance", "n", "1", "do", "kill")
	if status, a := first(); status != http.StatusServiceUnavailable || a.Outcome != outcomeKilled {
		t.Errorf("the killed one: got %d, %+v", status, a)
	}
	if _, b := second(); b.Outcome != outcomeDone {
		t.Errorf("the next holder: got %+v", b)
	}
	v.must("/lock1?work=1ms")
}

func TestClientThatLeavesFreesTheLock(t *testing.T) {
	v := visit(t, pageLease)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/lock1?work=2m", nil)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		a, err := v.http.Do(r)
		if err == nil {
			a.Body.Close()
		}
		left <- err
	}()
	v.until("1 holds", "lock", isHeld)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if _, b := ask[claimResult](v, "/lock2?work=1ms")(); b.Outcome != outcomeDone {
		t.Errorf("the next: got %+v", b)
	}
}

func TestTwoPagesShareTheLock(t *testing.T) {
	server := startStandIn(t)
	one, two := visit(t, pageLease, server.URL()), visit(t, pageLease, server.URL())
	first := ask[claimResult](one, "/lock1?work=1s")
	one.until("1 holds", "lock", isHeld)
	second := ask[claimResult](two, "/lock1?work=1ms")
	one.until("the waiter is seen from the other page", "lock", wanted)
	_, a := first()
	if _, b := second(); b.Outcome != outcomeDone || b.Token <= a.Token {
		t.Errorf("got %+v after %+v", b, a)
	}
}

// A form of the page is answered at once, and its action ends with the page.
func TestTheEndReleasesLocks(t *testing.T) {
	server := startStandIn(t)
	v := visit(t, pageLease, server.URL())
	v.must("/lock1?work=2m", "back", "1")
	v.must("/lock2?work=2m", "back", "1")
	v.until("one holds, the other waits", "lock", wanted)
	v.must("/oversell?locked=1&buyers=1000&items=900", "back", "1")
	if canPause {
		v.must("/instance", "n", "1", "do", "pause")
	}
	v.end()
	// What may stay ends by itself: the counter of tokens, the ledger, the event log, and what
	// the library publishes of clients, waiters and claims that were given up.
	for _, key := range server.Keys() {
		may := []string{prefix + "holdfast:token", keys{prefix, pageLock}.ledger(), prefix + "holdfast:events", prefix + "holdfast:events:rare"}
		if !slices.Contains(may, key) && !strings.HasPrefix(key, prefix+"holdfast:client:") && !strings.Contains(key, "holdfast:gone:") && !strings.Contains(key, "holdfast:waiting:") {
			t.Errorf("left behind: %q", key)
		}
	}
}

func TestWaitersAtTheEndAreAnswered(t *testing.T) {
	v := visit(t, pageLease)
	first := ask[claimResult](v, "/lock1?work=2m")
	v.until("1 holds", "lock", isHeld)
	second := ask[claimResult](v, "/lock2?work=2m")
	v.until("2 waits", "lock", wanted)
	stream, err := v.http.Get(v.url + "/events?view=")
	if err != nil {
		t.Fatal(err)
	}
	v.end()
	for i, answer := range []func() (int, claimResult){first, second} {
		if status, a := answer(); status != http.StatusServiceUnavailable || a.Outcome != outcomeFailed || a.Error != errEnding.Error() {
			t.Errorf("instance %d: got %d, %+v", i+1, status, a)
		}
	}
	read(t, stream.Body) // the stream of the dashboard ends
}

func TestNoKeyStaysForever(t *testing.T) {
	for _, path := range []string{"/lock1?work=1ms", "/oversell?locked=1&buyers=5&items=2", "/redlock"} {
		t.Run(path, func(t *testing.T) {
			server := startStandIn(t)
			v := visit(t, pageLease, server.URL())
			v.must(path)
			for _, key := range server.Keys() {
				if left, err := v.Servers[0].shop.number(t.Context(), "PTTL", key); err != nil || left == -1 {
					t.Errorf("%s has the TTL %v, %v", key, left, err)
				}
				if strings.HasSuffix(key, ":left") || strings.HasSuffix(key, ":sales") {
					t.Errorf("the sale left %s", key)
				}
			}
		})
	}
}

func TestRedlock(t *testing.T) {
	v := visit(t, pageLease)
	const none = "No majority"
	for _, cut := range []bool{false, true} {
		if cut {
			v.must("/node", "n", "2", "do", "cut")
		}
		status, r := ask[race](v, "/redlock")()
		if status != http.StatusOK || len(r.Workers) != racers || r.Overlaps != 0 {
			t.Fatalf("server 2 cut off %t: got %d, %+v", cut, status, r.Workers)
		}
		for i, w := range r.Workers {
			granted := strings.Count(strings.Join(w.Votes, " "), "granted")
			if w.Place != i+1 || w.Error != "" || granted < 2 || cut != (w.Votes[1] == "failed") {
				t.Errorf("server 2 cut off %t: got %+v at place %d", cut, w, i+1)
			}
		}
		if strings.Contains(v.page(), none) {
			t.Errorf("server 2 cut off %t: the page says %q", cut, none)
		}
	}
	v.must("/node", "n", "1", "do", "cut")
	if text := v.page(); !strings.Contains(text, none) {
		t.Errorf("the page lacks %q: %s", none, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, w := range v.Servers.race(ctx, 1).Workers {
		if w.Place != 0 || w.Error == "" {
			t.Errorf("without a majority: got %+v", w)
		}
	}
	v.must("/node", "n", "1", "do", "mend")
	if text := v.must("/redlock"); !strings.Contains(text, "granted by 2 of 3") || !strings.Contains(text, "two workers at the same time: 0 times") {
		t.Errorf("got %q", text)
	}
}

func TestOversell(t *testing.T) {
	v := visit(t, pageLease)
	_, without := ask[sale](v, "/oversell?locked=0&buyers=60&items=5")()
	if without.Sold <= 5 || !without.Over || without.Error != "" {
		t.Errorf("without a lock: got %+v, want more sold than there was", without)
	}
	_, with := ask[sale](v, "/oversell?locked=1&buyers=60&items=5")()
	if with.Sold != 5 || with.SoldOut != 55 || with.Stock != 0 || with.Error != "" {
		t.Errorf("with a lock: got %+v", with)
	}
}

func TestOneSaleAtATime(t *testing.T) {
	v := visit(t, pageLease)
	v.must("/oversell?locked=1&buyers=200&items=150", "back", "1")
	if status, body := v.post("/oversell?locked=1"); status != http.StatusConflict || body != "the same action is already running; wait for its end\n" {
		t.Errorf("a second sale: got %d, %s", status, body)
	}
	await.Until(t, 30*time.Second, "the page shows the end of the first", func() bool { return strings.Contains(v.page(), ">150</span>") })
}

func TestBadRequests(t *testing.T) {
	v := visit(t, pageLease)
	for path, want := range map[string]int{
		"/lock1?work=3m":                        http.StatusBadRequest,
		"/lock1?work=-1s":                       http.StatusBadRequest,
		"/lock1?work=0":                         http.StatusBadRequest,
		"/lock1?work=%3Cscript%3E":              http.StatusBadRequest,
		"/lock3":                                http.StatusNotFound,
		"/both?work=3m":                         http.StatusBadRequest,
		"/sales?buyers=0":                       http.StatusBadRequest,
		"/oversell?locked=2":                    http.StatusBadRequest,
		"/oversell?buyers=1001":                 http.StatusBadRequest,
		"/oversell?buyers=0":                    http.StatusBadRequest,
		"/oversell?items=x":                     http.StatusBadRequest,
		"/instance?n=3&do=kill":                 http.StatusBadRequest,
		"/instance?n=1&do=steal":                http.StatusBadRequest,
		"/instance?n=1":                         http.StatusBadRequest,
		"/instance?do=kill":                     http.StatusBadRequest,
		"/node?n=0&do=cut":                      http.StatusBadRequest,
		"/node?n=1&do=kill":                     http.StatusBadRequest,
		"/unlock":                               http.StatusForbidden,
		"/static/../handlers.go":                http.StatusTemporaryRedirect,
		"/oversell?" + strings.Repeat("a", 1e5): http.StatusRequestHeaderFieldsTooLarge,
	} {
		if status, body := v.post(path); status != want {
			t.Errorf("%.60s: got %d, %q, want %d", path, status, body, want)
		}
	}
	if status, body := v.post("/oversell", "locked", "1", "buyers", strings.Repeat("9", mostBody)); status != http.StatusOK || !strings.Contains(body, "60 buyers") {
		// ParseForm drops a body that is too large; what matters is that it is not read.
		t.Errorf("a huge body: got %d, %q", status, body)
	}
	r, err := v.http.Head(v.url + "/lock1")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: got %d, want %d", r.StatusCode, http.StatusMethodNotAllowed)
	}
}

func TestManyRequestsAreRefused(t *testing.T) {
	v := visit(t, pageLease)
	for range mostProcesses {
		v.must("/lock1?work=2m", "back", "1")
	}
	await.Until(t, 15*time.Second, "all processes are there", func() bool { return len(v.timeline.states(1)) == mostProcesses })
	if status, body := v.post("/lock1"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d, %s", status, body)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	v := visit(t, pageLease)
	for _, c := range []struct {
		method, path, header, value string
		want                        int
	}{
		{"POST", "/lock1?work=1ms", "Origin", "https://evil.example", 403},
		{"POST", "/lock1?work=1ms", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "/redlock", "Sec-Fetch-Site", "same-site", 403},
		{"POST", "/oversell", "Origin", "http://127.0.0.1", 403}, // another port of this machine
		{"GET", "/lock1?work=1ms", "Sec-Fetch-Site", "cross-site", 405},
		{"GET", "/redlock", "Sec-Fetch-Site", "same-site", 405},
		{"GET", "/both", "Accept", "image/*", 405},
		{"GET", "/sales", "Accept", "image/*", 405},
		{"POST", "/both", "Sec-Fetch-Site", "cross-site", 403},
		{"GET", "/oversell", "Accept", "image/*", 405}, // an image, as browsers ask for it off loopback
		{"GET", "/instance?n=1&do=kill", "Accept", "image/*", 405},
		{"GET", "/node?n=1&do=cut", "Accept", "image/*", 405},
		{"POST", "/instance?n=1&do=kill", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "/node?n=1&do=cut", "Origin", "null", 403},
		{"GET", "/lock1?work=1ms", "Sec-Fetch-Site", "none", 405},
		{"POST", "/lock1?work=1ms", "Sec-Fetch-Site", "same-origin", 200},
		{"POST", "/lock1?work=1ms", "Origin", v.url, 200},
		{"GET", "/demo", "Sec-Fetch-Site", "cross-site", 200},
		{"GET", "/demo", "Host", "evil.example", 421},
		{"GET", "/", "Host", "evil.example", 421},
		{"POST", "/lock1?work=1ms", "Host", "127.0.0.1.evil.example:80", 421},
		{"GET", "/", "Host", "localhost:1", 200},
		{"GET", "/demo", "Host", "[::1]:1", 200},
	} {
		r, err := http.NewRequest(c.method, v.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(c.header, c.value)
		if c.header == "Host" {
			r.Host = c.value
		}
		a, err := v.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != c.want {
			t.Errorf("%s %s with %s %s: got %d, want %d", c.method, c.path, c.header, c.value, a.StatusCode, c.want)
		}
		if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", c.path, policy)
		}
	}
}

// Pages that other machines can reach accept their addresses and names, and none that another
// site can have.
func TestHostsOffLoopback(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen, host string
		want         bool
	}{
		{"0.0.0.0:7071", "192.0.2.2:7071", true},
		{"0.0.0.0:7071", "[2001:db8::1]:7071", true},
		{"0.0.0.0:7071", "localhost:7071", true},
		{"0.0.0.0:7071", name + ":7071", true},
		{"0.0.0.0:7071", "demo.lan:7071", false},
		{"demo.lan:7071", "Demo.LAN:7071", true},
		{"demo.lan:7071", "evil.example:7071", false},
		{"demo.lan:7071", "demo.lan.evil.example", false},
	} {
		if got := (&site{PageOptions: PageOptions{Listen: c.listen}}).accepts(c.host); got != c.want {
			t.Errorf("--listen %s, host %s: got %v, want %v", c.listen, c.host, got, c.want)
		}
	}
}

// A browser without JavaScript uses the forms, and loads the page again.
func TestPageWithoutScript(t *testing.T) {
	v := visit(t, pageLease)
	v.must("/sales")
	await.Until(t, 15*time.Second, "the end of both sales", func() bool {
		page := v.page()
		return strings.Contains(page, " sold too many</span>") && strings.Contains(page, "exact</span>")
	})
	text := v.page()
	for _, want := range []string{`action="both"`, `formaction="lock1"`, `action="sales"`, `action="redlock"`, `<noscript><meta http-equiv="refresh"`, "stand-in, not for production"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	v.must("/lock1?work=2m", "back", "1")
	await.Until(t, 15*time.Second, "the held lock", func() bool { return strings.Contains(v.page(), `<a href="lock?name=lock">`) })
	r, err := v.http.Get(v.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, r.Body); !strings.Contains(text, `<a href="demo">Demo</a>`) {
		t.Errorf("the dashboard has no link to the demo: %s", text)
	}
}

func TestPasswordOfAServerIsNotShown(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("s3cret")
	v := visit(t, pageLease, "redis://:s3cret@"+server.Addr())
	var out bytes.Buffer
	v.introduce(&out)
	if all := out.String() + v.page(); strings.Contains(all, "s3cret") || !strings.Contains(all, server.Addr()) {
		t.Errorf("got %s", all)
	}
	if want := "--url redis://" + server.Addr() + " --url "; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", &out, want)
	}
}

func TestCheckPage(t *testing.T) {
	for n, valid := range []bool{true, true, false, true, false, true, false, true, false, true, false, false} {
		o := PageOptions{Access: make([]open.Access, n)}
		if err := o.Check(); (err == nil) != valid {
			t.Errorf("%d servers: got %v", n, err)
		}
	}
}
