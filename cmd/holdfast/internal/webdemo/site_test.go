package webdemo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/await"
)

// visitor uses a demo that runs.
type visitor struct {
	*testing.T
	*site
	url  string
	http *http.Client
	end  func() // ends the demo, and returns when it is gone
}

// visit starts a demo on stores, none for stand-ins. It ends with the test, and
// must end cleanly.
func visit(t *testing.T, lease time.Duration, stores ...string) *visitor {
	t.Helper()
	o := Options{
		Listen: "127.0.0.1:0", Worker: []string{os.Args[0]}, lease: lease,
		Env: append(os.Environ(), workerVariable+"=1", "GORACE=atexit_sleep_ms=0"),
	}
	for _, s := range stores {
		o.Access = append(o.Access, access.Access{URL: s})
	}
	listener, err := net.Listen("tcp", o.Listen)
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
	v := &visitor{T: t, site: s, url: "http://" + s.self, http: &http.Client{Transport: &http.Transport{}}}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v.end = sync.OnceFunc(func() {
		t.Helper()
		began := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.close()
		v.http.CloseIdleConnections()
		if took := time.Since(began); took > goodbye {
			t.Errorf("the end took %s", took)
		}
	})
	t.Cleanup(v.end)
	v.await("both instances are ready", func(s state) bool { return s.Instances[0].Ready && s.Instances[1].Ready })
	return v
}

// await waits until the board shows something.
func (v *visitor) await(what string, seen func(state) bool) state {
	v.Helper()
	limit := time.After(15 * time.Second)
	for {
		now, _, changed := v.board.read()
		if seen(now) {
			return now
		}
		select {
		case <-changed:
		case <-limit:
			text, _ := json.MarshalIndent(now, "", " ")
			v.Fatalf("%s: not seen on %s", what, text)
		}
	}
}

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
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		v.Fatal(err)
	}
	return r.StatusCode, string(text)
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

// ask sends a request that wants JSON, and returns its answer later.
// page returns the page.
func (v *visitor) page() string {
	v.Helper()
	r, err := v.http.Get(v.url + "/")
	if err != nil {
		v.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		v.Fatal(err)
	}
	return string(text)
}

func ask[T any](v *visitor, path string) func() (int, T) {
	type reply struct {
		status int
		value  T
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		var a reply
		r, err := http.NewRequest(http.MethodPost, v.url+path, nil)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Accept", "application/json")
		answer, err := v.http.Do(r)
		if a.err = err; err == nil {
			a.status, a.err = answer.StatusCode, json.NewDecoder(answer.Body).Decode(&a.value)
			answer.Body.Close()
		}
		replies <- a
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

func holds(n int) func(state) bool {
	return func(s state) bool { return s.Instances[n-1].Holds }
}

func waits(n int) func(state) bool {
	return func(s state) bool { return s.Instances[n-1].Waiting > 0 }
}

func told(text string) func(state) bool {
	return func(s state) bool {
		return slices.ContainsFunc(s.Log, func(e entry) bool { return strings.Contains(e.Text, text) })
	}
}

func startStandIn(t *testing.T) *standin.Server {
	t.Helper()
	server, err := standin.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func TestOneWorksTheOtherWaits(t *testing.T) {
	v := visit(t, defaultLease)
	first := ask[result](v, "/lock1?work=2s")
	v.await("1 holds", holds(1))
	second := ask[result](v, "/lock2?work=50ms")
	v.await("2 waits", waits(2))
	status, a := first()
	if status != http.StatusOK || a.Outcome != outcomeDone || a.Held < 2000 || a.Token == 0 || a.Write != "accepted" {
		t.Errorf("the first: got %d, %+v", status, a)
	}
	status, b := second()
	if status != http.StatusOK || b.Outcome != outcomeDone || b.Token <= a.Token || b.Waited > a.Held+500 {
		t.Errorf("the second: got %d, %+v, after %+v", status, b, a)
	}
	if text := v.must("/lock2?work=1ms"); !strings.HasPrefix(text, "instance 2 waited ") || !strings.Contains(text, "gave it back.") {
		t.Errorf("got %q", text)
	}
}

func TestPausedHolderIsRefused(t *testing.T) {
	if !canPause {
		t.Skip("this system cannot pause a process")
	}
	v := visit(t, 500*time.Millisecond)
	first := ask[result](v, "/lock1?work=30s")
	v.await("1 holds", holds(1))
	v.must("/instance", "n", "1", "do", "pause")
	if _, b := ask[result](v, "/lock2?work=10ms")(); b.Outcome != outcomeDone || b.Waited > 2000 {
		t.Errorf("the heir: got %+v", b)
	}
	v.must("/instance", "n", "1", "do", "resume")
	if status, a := first(); status != http.StatusConflict || a.Outcome != outcomeLost || a.Write != "refused" {
		t.Errorf("the paused one: got %d, %+v", status, a)
	}
	v.await("the refusal is told", told("The ledger has seen"))
}

func TestKilledHolderIsReplaced(t *testing.T) {
	v := visit(t, 500*time.Millisecond)
	before := v.await("ready", func(state) bool { return true }).Instances[0].PID
	first := ask[result](v, "/lock1?work=30s")
	v.await("1 holds", holds(1))
	second := ask[result](v, "/lock2?work=10ms")
	v.await("2 waits", waits(2))
	v.must("/instance", "n", "1", "do", "kill")
	if status, a := first(); status != http.StatusServiceUnavailable || a.Outcome != outcomeKilled {
		t.Errorf("the killed one: got %d, %+v", status, a)
	}
	if _, b := second(); b.Outcome != outcomeDone || b.Waited > 2000 {
		t.Errorf("the heir: got %+v", b)
	}
	v.await("another process", func(s state) bool { return s.Instances[0].Ready && s.Instances[0].PID != before })
	v.must("/lock1?work=1ms")
}

func TestCutHolderLosesItsLock(t *testing.T) {
	v := visit(t, 500*time.Millisecond)
	first := ask[result](v, "/lock1?work=30s")
	v.await("1 holds", holds(1))
	v.must("/instance", "n", "1", "do", "cut")
	v.await("it learns of the loss without the network", func(s state) bool { return s.Instances[0].Lost && s.Instances[0].Cut })
	v.must("/lock2?work=10ms")
	v.must("/instance", "n", "1", "do", "mend")
	if status, a := first(); status != http.StatusConflict || a.Outcome != outcomeLost || a.Write != "refused" {
		t.Errorf("got %d, %+v", status, a)
	}
	v.must("/lock1?work=1ms")
}

func TestClientThatLeavesFreesTheLock(t *testing.T) {
	v := visit(t, defaultLease)
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
	v.await("1 holds", holds(1))
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if _, b := ask[result](v, "/lock2?work=1ms")(); b.Outcome != outcomeDone || b.Waited > 2000 {
		t.Errorf("the next: got %+v", b)
	}
}

func TestTwoServersShareTheLock(t *testing.T) {
	server := startStandIn(t)
	one, two := visit(t, defaultLease, server.URL()), visit(t, defaultLease, server.URL())
	first := ask[result](one, "/lock1?work=2s")
	one.await("1 holds", holds(1))
	second := ask[result](two, "/lock1?work=1ms")
	two.await("the other waits", waits(1))
	for seen := false; !seen; { // it listens a moment after it waits
		one.look(t.Context())
		now, _, _ := one.board.read()
		seen = now.Lock.Held && now.Lock.Waiters == 1
		if !now.Lock.Held {
			t.Fatal("the waiter was not seen from the other server")
		}
	}
	_, a := first()
	if _, b := second(); b.Outcome != outcomeDone || b.Token <= a.Token || b.Waited > a.Held+500 {
		t.Errorf("got %+v after %+v", b, a)
	}
}

func TestTheEndGivesBackLocks(t *testing.T) {
	server := startStandIn(t)
	t.Run("serve", func(t *testing.T) {
		v := visit(t, defaultLease, server.URL())
		v.must("/lock1?work=2m", "back", "1")
		v.must("/lock2?work=2m", "back", "1")
		v.must("/oversell?locked=1&buyers=1000&items=900", "back", "1")
		v.await("1 or 2 holds", func(s state) bool { return holds(1)(s) || holds(2)(s) })
		if canPause {
			v.must("/instance", "n", "1", "do", "pause")
		}
		v.await("the sale has begun", func(s state) bool { return s.Sales[1].Sold > 0 })
	})
	// These end by themselves; programs introduce themselves and say what they wait for and did, and claims that were given up leave a mark.
	want := []string{prefix + tokenName, prefix + ledgerName, prefix + "holdfast:events", prefix + "holdfast:events:rare"}
	for _, key := range server.Keys() {
		if !slices.Contains(want, key) && !strings.HasPrefix(key, prefix+"holdfast:client:") && !strings.Contains(key, ":holdfast:gone:") && !strings.Contains(key, "holdfast:waiting:") {
			t.Errorf("left behind: %q", key)
		}
	}
}

func TestWhoWaitsAtTheEndIsAnswered(t *testing.T) {
	v := visit(t, defaultLease)
	first := ask[result](v, "/lock1?work=2m")
	v.await("1 holds", holds(1))
	second := ask[result](v, "/lock2?work=2m")
	v.await("2 waits", waits(2))
	stream, err := v.http.Get(v.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	v.end()
	for i, answer := range []func() (int, result){first, second} {
		if status, a := answer(); status != http.StatusServiceUnavailable || a.Outcome != outcomeFailed || a.Error != errEnding.Error() {
			t.Errorf("instance %d: got %d, %+v", i+1, status, a)
		}
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Errorf("the stream: %v", err)
	}
}

func TestNothingStaysForEver(t *testing.T) {
	server := startStandIn(t)
	v := visit(t, defaultLease, server.URL())
	v.must("/lock1?work=1ms")
	v.must("/oversell?locked=1&buyers=5&items=2")
	v.look(t.Context())
	now, _, _ := v.board.read()
	if len(now.Lock.Keys) != 2 {
		t.Errorf("got the keys %+v, want the ledger and the counter", now.Lock.Keys)
	}
	for _, k := range now.Lock.Keys {
		if k.Ends == 0 {
			t.Errorf("%s has no TTL", k.Name)
		}
	}
}

func TestRedlock(t *testing.T) {
	v := visit(t, defaultLease)
	for _, cut := range []int{0, 1} {
		if cut > 0 {
			v.must("/node", "n", "2", "do", "cut")
		}
		status, race := ask[raceState](v, "/redlock")()
		if status != http.StatusOK || len(race.Workers) != racers || race.Overlaps != 0 {
			t.Fatalf("%d nodes cut: got %d, %+v", cut, status, race)
		}
		for i, w := range race.Workers {
			if w.Place != i+1 || w.Error != "" || w.Granted() < 2 || cut > 0 && w.Votes[1] == voteGranted {
				t.Errorf("%d nodes cut: got %+v at place %d", cut, w, i+1)
			}
		}
	}
	const none = "No majority: 2 of 3 nodes cannot be reached, so no worker gets the lock."
	if text := v.page(); strings.Contains(text, "No majority") {
		t.Errorf("one node is cut: the page says %q", text)
	}
	v.must("/node", "n", "1", "do", "cut")
	if text := v.page(); !strings.Contains(text, none) { // before a race, not at its end
		t.Errorf("the page lacks %q: %s", none, text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := v.arena.begin(); err != nil {
		t.Fatal(err)
	}
	for _, w := range v.arena.run(ctx).Workers {
		if w.Place != 0 || w.Error == "" {
			t.Errorf("without a majority: got %+v", w)
		}
	}
	v.must("/node", "n", "1", "do", "mend")
	v.must("/redlock")
}

// late is a node whose first answer comes when the test says so.
type late struct {
	driver.Backend
	asked, answer chan struct{}
}

func (l *late) Try(_ context.Context, c driver.Claim) (driver.Outcome, error) {
	if c.Seq == 1 {
		close(l.asked)
		<-l.answer
		return driver.Outcome{}, nil
	}
	return driver.Outcome{Granted: true}, nil
}

// The answer to an attempt that lost may come after that to the next.
func TestBallotForgetsEarlierAttempts(t *testing.T) {
	node := &late{asked: make(chan struct{}), answer: make(chan struct{})}
	b := &ballot{Backend: node}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = b.Try(context.Background(), driver.Claim{Seq: 1})
	}()
	<-node.asked
	_, _ = b.Try(t.Context(), driver.Claim{Seq: 2})
	close(node.answer)
	<-answered
	if got := b.get(); got != voteGranted {
		t.Errorf("got vote %q, want %q, of the later attempt", got, voteGranted)
	}
}

func TestOversell(t *testing.T) {
	v := visit(t, defaultLease)
	_, without := ask[saleState](v, "/oversell?locked=0&buyers=60&items=5")()
	if without.Oversold() == 0 || !without.Over || without.Error != "" {
		t.Errorf("without a lock: got %+v, want more sold than there was", without)
	}
	_, with := ask[saleState](v, "/oversell?locked=1&buyers=60&items=5")()
	if with.Sold != 5 || with.SoldOut != 55 || with.Stock != 0 || with.Error != "" {
		t.Errorf("with a lock: got %+v", with)
	}
}

func TestOneSaleAtATime(t *testing.T) {
	v := visit(t, defaultLease)
	v.must("/oversell?locked=1&buyers=200&items=150", "back", "1")
	if status, body := v.post("/oversell?locked=1"); status != http.StatusConflict {
		t.Errorf("a second sale: got %d, %s", status, body)
	}
	v.must("/oversell?locked=1", "back", "1")
	v.await("the page says so", told("Not now: the sale: one is under way already"))
	v.await("the first one ends", func(s state) bool { return s.Sales[1].Over && s.Sales[1].Sold == 150 })
}

func TestBadRequests(t *testing.T) {
	v := visit(t, defaultLease)
	for path, want := range map[string]int{
		"/lock1?work=3m":                        http.StatusBadRequest,
		"/lock1?work=-1s":                       http.StatusBadRequest,
		"/lock1?work=0":                         http.StatusBadRequest,
		"/lock1?work=%3Cscript%3E":              http.StatusBadRequest,
		"/lock3":                                http.StatusNotFound,
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
		"/static/../handlers.go":                http.StatusTemporaryRedirect,
		"/oversell?" + strings.Repeat("a", 1e5): http.StatusRequestHeaderFieldsTooLarge,
	} {
		if status, body := v.post(path); status != want {
			t.Errorf("%.60s: got %d, %q, want %d", path, status, body, want)
		}
	}
	if status, body := v.post("/oversell", "locked", "1", "buyers", strings.Repeat("9", maxBody)); status != http.StatusOK || !strings.Contains(body, "60 buyers") {
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
	v := visit(t, defaultLease)
	for range maxJobs {
		v.must("/lock1?work=2m", "back", "1")
	}
	if status, body := v.post("/lock1"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d, %s", status, body)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	v := visit(t, defaultLease)
	for _, c := range []struct {
		method, path, header, value string
		want                        int
	}{
		{"POST", "/lock1?work=1ms", "Origin", "https://evil.example", 403},
		{"POST", "/lock1?work=1ms", "Sec-Fetch-Site", "cross-site", 403},
		{"GET", "/lock1?work=1ms", "Sec-Fetch-Site", "cross-site", 403},
		{"GET", "/oversell", "Sec-Fetch-Site", "same-site", 403},
		{"POST", "/instance?n=1&do=kill", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "/node?n=1&do=cut", "Origin", "null", 403},
		{"GET", "/lock1?work=1ms", "Sec-Fetch-Site", "none", 200},
		{"POST", "/lock1?work=1ms", "Sec-Fetch-Site", "same-origin", 200},
		{"GET", "/", "Sec-Fetch-Site", "cross-site", 200},
		{"GET", "/", "Host", "evil.example", 421},
		{"POST", "/lock1?work=1ms", "Host", "127.0.0.1.evil.example:80", 421},
		{"GET", "/", "Host", "localhost:1", 200},
		{"GET", "/", "Host", "[::1]:1", 200},
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

func TestEventsShowTheHandOver(t *testing.T) {
	v := visit(t, defaultLease)
	r, err := v.http.Get(v.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	defer time.AfterFunc(30*time.Second, func() { r.Body.Close() }).Stop() // ends the stream
	parts, seen := map[string]string{}, bufio.NewScanner(r.Body)
	until := func(what string, done func() bool) {
		t.Helper()
		for seen.Scan() {
			text, ok := strings.CutPrefix(seen.Text(), "data: ")
			if !ok {
				continue
			}
			var f frame
			if err := json.Unmarshal([]byte(text), &f); err != nil {
				t.Fatal(err)
			}
			for id, html := range f.Parts {
				parts[id] = html
			}
			if done() {
				return
			}
		}
		t.Fatalf("%s: the stream ended: %v", what, seen.Err())
	}
	until("everything", func() bool { return len(parts) >= 11 })
	v.must("/lock1", "work", "2s", "back", "1")
	until("1 holds", func() bool { return strings.Contains(parts["instance1"], `data-status="holds"`) })
	v.must("/lock2", "work", "2s", "back", "1")
	until("the keys", func() bool {
		return strings.Contains(parts["keys"], "{holdfast-demo}:lock") && strings.Contains(parts["lock"], "<strong>instance 1</strong>")
	})
	handOver := await.NewWatch(t)
	until("2 holds", func() bool { return strings.Contains(parts["instance2"], `data-status="holds"`) })
	now, _, _ := v.board.read()
	if late := time.Now().UnixMilli() - now.Instances[1].Since; late > 1000+handOver.Late().Milliseconds() {
		t.Errorf("the hand-over was seen %d ms late; the machine stood still for %v", late, handOver.Late())
	}
	until("the store says so", func() bool { return strings.Contains(parts["lock"], "<strong>instance 2</strong>") })
}

func TestPageWithoutScript(t *testing.T) {
	v := visit(t, defaultLease)
	v.must("/oversell?locked=0", "back", "1")
	v.await("sold", func(s state) bool { return s.Sales[0].Over })
	text := v.page()
	for _, want := range []string{`action="lock1"`, `action="redlock"`, `<noscript><meta http-equiv="refresh"`, "Oversold by", "stand-in, not for production"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestCheck(t *testing.T) {
	two := make([]access.Access, 2)
	for name, o := range map[string]Options{
		"no listen":  {Worker: []string{"x"}},
		"no port":    {Listen: "localhost", Worker: []string{"x"}},
		"two stores": {Listen: ":0", Worker: []string{"x"}, Access: two},
		"no worker":  {Listen: ":0"},
	} {
		if o.Check() == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
}

func TestWorkByHand(t *testing.T) {
	for _, in := range []string{"", "not JSON\n"} {
		if err := Work(t.Context(), strings.NewReader(in), io.Discard); err == nil {
			t.Errorf("%q: got nil, want an error", in)
		}
	}
}
