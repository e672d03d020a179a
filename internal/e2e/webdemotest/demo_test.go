package webdemotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// demo is a server of the demo that runs as a process of its own.
type demo struct {
	*testing.T
	url string
	cmd *exec.Cmd
	out *bufio.Reader
}

// serve starts the demo on a free port. It is ended with Ctrl-C, and must end well.
func serve(t *testing.T, binary string, args ...string) *demo {
	t.Helper()
	d := &demo{T: t, cmd: exec.Command(binary, append([]string{"demo", "--serve", "--listen", "127.0.0.1:0"}, args...)...)}
	var stderr bytes.Buffer
	d.cmd.Stderr = &stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGINT)
		limit := time.AfterFunc(15*time.Second, func() { _ = d.cmd.Process.Kill() })
		defer limit.Stop()
		_, _ = io.Copy(io.Discard, d.out)
		if err := d.cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("the demo ended with %v, and said %q", err, stderr.String())
		}
	})
	d.out = bufio.NewReader(stdout)
	line, err := d.out.ReadString('\n')
	_, rest, found := strings.Cut(line, "open ")
	d.url, _, _ = strings.Cut(rest, " ")
	if err != nil || !found {
		t.Fatalf("the demo said %q: %v", line, err)
	}
	d.until("both instances are ready", func(s state) bool { return s.Instances[0].Ready && s.Instances[1].Ready })
	return d
}

// state is a part of what the demo says of itself.
type state struct {
	Instances [2]struct {
		Ready, Holds bool
		Waiting      int
	}
	Lock struct {
		Held   bool
		Holder string
	}
}

// until asks the demo until it says something.
func (d *demo) until(what string, seen func(state) bool) {
	d.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		r, err := http.Get(d.url + "/state")
		if err != nil {
			d.Fatal(err)
		}
		var s state
		err = json.NewDecoder(r.Body).Decode(&s)
		r.Body.Close()
		switch {
		case err != nil:
			d.Fatal(err)
		case seen(s):
			http.DefaultClient.CloseIdleConnections()
			return
		case time.Now().After(end):
			d.Fatalf("%s: not seen; the demo says %+v", what, s)
		}
	}
}

// result is the answer to a request for the lock, a sale or a race.
type result struct {
	status  int
	Outcome string
	Token   uint64
	Waited  int64 `json:"waited_ms"`
	Held    int64 `json:"held_ms"`

	Sold    int
	SoldOut int `json:"told_sold_out"`
	Items   int
	Error   string

	Overlaps int
	Workers  []struct {
		Place int
		Votes []string
		Error string
	}
}

// post asks for something; the answer comes later.
func (d *demo) post(path string, form ...string) <-chan result {
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	answers := make(chan result, 1)
	go func() {
		defer close(answers)
		r, err := http.NewRequest(http.MethodPost, d.url+path, strings.NewReader(values.Encode()))
		if err != nil {
			return
		}
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Close = true
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			d.Errorf("%s: %v", path, err)
			return
		}
		defer a.Body.Close()
		answer := result{status: a.StatusCode}
		if err := json.NewDecoder(a.Body).Decode(&answer); err != nil {
			d.Errorf("%s: %v", path, err)
		}
		answers <- answer
	}()
	return answers
}

// TestWebDemo uses the demo with all that people have: two ports, curl, a browser.
func TestWebDemo(t *testing.T) {
	binary := must.Build(t)
	for name, test := range map[string]func(*testing.T, string){
		"TwoPorts":      twoPorts,
		"Race":          raceOverRealServers,
		"Cluster":       onACluster,
		"Desktop":       func(t *testing.T, binary string) { browse(t, binary, desktop(), "desktop") },
		"Phone":         func(t *testing.T, binary string) { browse(t, binary, phone(), "phone") },
		"WithoutScript": withoutScript,
		"ServerGone":    serverGone,
		"RedisGone":     redisGone,
	} {
		t.Run(name, func(t *testing.T) { test(t, binary) })
	}
}

// twoPorts is two servers that share the locks of a real Redis.
func twoPorts(t *testing.T, binary string) {
	redis := redistest.Start(t)
	one, two := serve(t, binary, "--url", redis.URL()), serve(t, binary, "--url", redis.URL())
	first := one.post("/lock1", "work", "3s")
	one.until("1 holds", func(s state) bool { return s.Instances[0].Holds })
	second := two.post("/lock2", "work", "10ms")
	two.until("the other server sees the holder", func(s state) bool { return s.Instances[1].Waiting == 1 && s.Lock.Held })
	a, c := <-first, <-second
	if a.Outcome != "done" || c.Outcome != "done" || c.Token <= a.Token || c.Waited > a.Held+500 {
		t.Errorf("got %+v and %+v", a, c)
	}
	for locked, want := range map[string]func(result) bool{
		"0": func(r result) bool { return r.Sold > 10 },
		"1": func(r result) bool { return r.Sold == 10 && r.SoldOut == 90 },
	} {
		sales := []<-chan result{one.post("/oversell", "locked", locked, "buyers", "100"), two.post("/oversell", "locked", locked, "buyers", "100")}
		for _, s := range sales {
			if r := <-s; r.status != http.StatusOK || !want(r) {
				t.Errorf("locked=%s: got %+v", locked, r)
			}
		}
	}
}

// raceOverRealServers is Redlock as it is meant: over servers that know nothing of
// each other. The demo's race is for locks of 5 s, so they have to be up for as long.
func raceOverRealServers(t *testing.T, binary string) {
	var args []string
	for range 3 {
		args = append(args, "--url", redistest.Start(t).URL())
	}
	d := serve(t, binary, args...)
	for _, cut := range []bool{false, true} {
		if cut {
			<-d.post("/node", "n", "3", "do", "cut")
		}
		r := <-d.post("/redlock")
		if r.status != http.StatusOK || len(r.Workers) != 5 || r.Overlaps != 0 {
			t.Fatalf("got %+v", r)
		}
		for i, w := range r.Workers {
			if w.Place != i+1 || w.Error != "" || cut && w.Votes[2] == "granted" {
				t.Errorf("node cut: %t: got %+v at place %d", cut, w, i+1)
			}
		}
	}
}

// onACluster takes any deployment: the demo's own keys are all in one slot.
func onACluster(t *testing.T, binary string) {
	cluster := redistest.StartDeployment(t, redistest.Cluster)
	d := serve(t, binary, "--url", cluster.URL())
	if r := <-d.post("/lock1", "work", "10ms"); r.Outcome != "done" {
		t.Errorf("got %+v", r)
	}
	if r := <-d.post("/oversell", "locked", "1"); r.Sold != 10 || r.Error != "" {
		t.Errorf("got %+v", r)
	}
}

// browse uses everything in a browser, on the stand-in.
func browse(t *testing.T, binary string, s browser.Screen, name string) {
	d := serve(t, binary)
	p := open(t, s)
	p.Do(chromedp.Navigate(d.url))
	p.Until(5*time.Second, "ready", `document.querySelector("#instance1[data-status=idle]")`)
	mustServeAll(p, name+", at rest")

	browser.Eval[string](p, `document.getElementById("work1").value = "2s"`)
	p.Click("start1")
	p.Until(2*time.Second, "1 holds", `document.querySelector("#instance1[data-status=holds]")`)
	p.Click("start2")
	p.Until(2*time.Second, "2 waits", `document.querySelector("#instance2[data-status=waits]")`)
	p.Until(2*time.Second, "the keys", `document.getElementById("keys").innerText.includes("{holdfast-demo}:lock")`)
	p.Until(4*time.Second, "1 is done", `document.querySelector("#instance1[data-status=idle]")`)
	gap := p.Until(2*time.Second, "2 holds", `document.querySelector("#instance2[data-status=holds]")`)
	if gap > time.Second {
		t.Errorf("the hand-over took %s on the page", gap)
	}
	p.Until(2*time.Second, "the store says so", `document.getElementById("lock").innerText.includes("instance 2 holds the lock")`)

	p.Click("sell0")
	p.Until(10*time.Second, "oversold", `document.getElementById("sale0").innerText.includes("Oversold by ")`)
	p.Click("sell1")
	p.Until(10*time.Second, "exact", `document.getElementById("sale1").innerText.includes("Exact.")`)
	p.Click("wire2")
	p.Until(2*time.Second, "node 2 is cut off", `document.querySelector("#node2.down")`)
	p.Click("race-start")
	p.Until(10*time.Second, "the race", `document.querySelector("#race[data-running=false] tbody tr:nth-child(5)")`)

	p.Click("pause2")
	p.Until(2*time.Second, "2 is paused", `document.querySelector("#instance2[data-status=paused]")`)
	p.Click("start1")
	p.Until(8*time.Second, "1 takes over", `document.querySelector("#instance1[data-status=holds]")`)
	mustServeAll(p, name+", at work")
	p.Shot(name)
	p.Click("pause2") // resumes
	p.Until(4*time.Second, "2 is refused", `document.getElementById("log").innerText.includes("and refuses")`)
	p.Click("kill1")
	p.Until(5*time.Second, "another process", `document.getElementById("log").innerText.includes("A new process takes its place")`)
	p.Shot(name + "-end")
	if wide := browser.Eval[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		t.Errorf("the page is %d pixels too wide", wide)
	}
}

// mustServeAll fails for what would keep people from using the page.
func mustServeAll(p *browser.Tab, when string) {
	p.Helper()
	for _, problem := range p.Audit() {
		p.Errorf("%s: %s", when, problem)
	}
}

// withoutScript uses forms and loads the page again.
func withoutScript(t *testing.T, binary string) {
	d := serve(t, binary)
	s := desktop()
	s.NoJS = true
	p := open(t, s)
	p.Do(chromedp.Navigate(d.url))
	p.Click("start1")
	p.Until(6*time.Second, "1 holds", `document.querySelector("#instance1[data-status=holds]")`)
	p.Click("sell0")
	p.Until(6*time.Second, "oversold", `document.getElementById("sale0").innerText.includes("Oversold by ")`)
}

// redisGone kills Redis under the page and starts it again.
func redisGone(t *testing.T, binary string) {
	redis := redistest.Start(t)
	d := serve(t, binary, "--url", redis.URL())
	p := open(t, desktop())
	p.Do(chromedp.Navigate(d.url))
	p.Until(5*time.Second, "ready", `document.querySelector("#instance1[data-status=idle]")`)
	redis.Kill()
	p.Until(3*time.Second, "the page says so", `document.querySelector("#lock .trouble")`)
	p.Shot("redis-gone")
	redis.Restart()
	p.Until(10*time.Second, "it is over", `!document.querySelector("#lock .trouble")`)
	if r := <-d.post("/lock1", "work", "10ms"); r.Outcome != "done" {
		t.Errorf("afterwards: got %+v", r)
	}
}

// serverGone ends the server under the page, which says so.
func serverGone(t *testing.T, binary string) {
	d := serve(t, binary)
	p := open(t, desktop())
	p.Do(chromedp.Navigate(d.url))
	p.Until(5*time.Second, "ready", `document.querySelector("#instance1[data-status=idle]")`)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.Until(5*time.Second, "the page says so", `!document.getElementById("cut").hidden`)
	p.Forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING")
}
