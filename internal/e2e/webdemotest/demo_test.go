package webdemotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
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
	_, rest, _ := strings.Cut(line, "open ")
	address, _, found := strings.Cut(rest, "/demo ")
	if d.url = address; err != nil || !found {
		t.Fatalf("the demo said %q: %v", line, err)
	}
	return d
}

// until asks the dashboard for the page of the lock until a text is on it.
func (d *demo) until(text string) {
	d.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	await.Until(d.T, 10*time.Second, "the page of the lock shows "+text, func() bool {
		r, err := http.Get(d.url + "/lock?name=lock")
		if err != nil {
			d.Fatal(err)
		}
		defer r.Body.Close()
		page, err := io.ReadAll(r.Body)
		return err == nil && strings.Contains(string(page), text)
	})
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
		"Browser":       browse,
		"WithoutScript": withoutScript,
		"Keyboard":      keyboard,
		"Motion":        motion,
		"ServerGone":    serverGone,
		"RedisGone":     redisGone,
		"OtherMachine":  otherMachine,
	} {
		t.Run(name, func(t *testing.T) { test(t, binary) })
	}
}

// twoPorts is two servers that share the locks of a real Redis.
func twoPorts(t *testing.T, binary string) {
	redis := redistest.Start(t)
	one, two := serve(t, binary, "--url", redis.URL()), serve(t, binary, "--url", redis.URL())
	first := one.post("/lock1", "work", "3s")
	two.until("instance 1 of " + strings.TrimPrefix(one.url, "http://"))
	second := two.post("/lock2", "work", "10ms")
	a, c := <-first, <-second
	if a.Outcome != "done" || c.Outcome != "done" || c.Token <= a.Token || c.Waited > a.Held {
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
// each other.
func raceOverRealServers(t *testing.T, binary string) {
	var args []string
	for range 3 {
		args = append(args, "--url", redistest.Start(t).URL())
	}
	d := serve(t, binary, args...)
	for _, cut := range []bool{false, true} {
		if cut {
			r, err := http.PostForm(d.url+"/node", url.Values{"n": {"3"}, "do": {"cut"}})
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			http.DefaultClient.CloseIdleConnections()
		}
		r := <-d.post("/redlock")
		if r.status != http.StatusOK || len(r.Workers) != 5 || r.Overlaps != 0 {
			t.Fatalf("got %+v", r)
		}
		for i, w := range r.Workers {
			if w.Place != i+1 || w.Error != "" || cut && w.Votes[2] == "granted" {
				t.Errorf("server cut off: %t: got %+v at place %d", cut, w, i+1)
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
func browse(t *testing.T, binary string) {
	for name, screen := range screens() {
		t.Run(name, func(t *testing.T) {
			d := serve(t, binary)
			p := open(t, screen)
			p.Visit(d.url + "/demo")
			p.Until(5*time.Second, "the list of locks", `!document.getElementById("empty").hidden`)
			mustServeAll(p, "at rest")
			lateWrite(p)
			if name == "desktop" || name == "phone-dark" {
				oneLock(p, d)
			}
			press(p, "sell")
			p.Until(10*time.Second, "oversold", says("result-sale0", " sold too many"))
			p.Until(10*time.Second, "exact", says("result-sale1", "exact"))
			press(p, "node2")
			p.Until(2*time.Second, "server 2 is cut off", says("servers", "cut off"))
			press(p, "race")
			p.Until(10*time.Second, "the race", says("servers", "granted by 2 of 3"))
			mustServeAll(p, "at work")
			p.Shot("demo-" + name)
			p.Visit(d.url + "/event-log")
			p.Until(5*time.Second, "the events of all scenes", `["redlock", "shop:"].every((name) => document.getElementById("rows").innerText.includes(name))`)
		})
	}
}

// says is the condition that an element has a text.
func says(id, text string) string {
	return fmt.Sprintf("document.getElementById(%q)?.innerText.includes(%q)", id, text)
}

// lateWrite presses the button of the first scene and pauses the holder. The pictures show the
// takeover, and the write that is refused.
func lateWrite(p *browser.Tab) {
	const (
		holds = "holds the lock"
		looks = `document.querySelector("#plot%d .block.%s")`
	)
	press(p, "startboth")
	p.Until(10*time.Second, "one holds, the other waits", `document.querySelectorAll("button.strong").length === 3 && document.querySelector(".block.waits") && document.querySelector(".block.holds")`)
	mustServeAll(p, "both run")
	holder := 1
	if !browser.Eval[bool](p, says("instance1", holds)) {
		holder = 2
	}
	other := 3 - holder
	if browser.Eval[bool](p, fmt.Sprintf(`Boolean(document.getElementById("resume%d") || document.getElementById("mend%[1]d") || document.getElementById("start%[1]d"))`, holder)) {
		p.Errorf("a button that cannot act is offered for instance %d", holder)
	}
	press(p, fmt.Sprint("pause", holder))
	p.Until(2*time.Second, "the holder is paused", fmt.Sprintf(looks, holder, "stuck"))
	mustServeAll(p, "the holder is paused")
	p.Until(10*time.Second, "the other one takes over", says(fmt.Sprint("instance", other), holds))
	p.Until(2*time.Second, "the lease is over", fmt.Sprintf(looks, holder, "over"))
	press(p, fmt.Sprint("resume", holder))
	p.Until(4*time.Second, "the write is refused", says(fmt.Sprint("result-lock", holder), "It wrote nevertheless: refused."))
	p.Until(2*time.Second, "the headline", says("headline", fmt.Sprintf("The ledger has refused the late write of instance %d.", holder)))
	mustServeAll(p, "after the refused write")
	press(p, fmt.Sprint("kill", other))
	p.Until(2*time.Second, "the other one is killed", says(fmt.Sprint("result-lock", other), "was killed"))
	p.Until(10*time.Second, "the lock is free", says("lock-now", "nobody holds it"))
}

// oneLock lets the instances take the lock, cuts off the holder and kills the next one. The
// dashboard shows the lock in its list, on its page and in its event log.
func oneLock(p *browser.Tab, d *demo) {
	const holds = `document.getElementById("rows").innerText.includes("instance %s")`
	browser.Eval[string](p, `document.getElementById("work").value = "5s"`)
	press(p, "start1")
	p.Until(5*time.Second, "1 holds", strings.ReplaceAll(holds, "%s", "1"))
	browser.Eval[string](p, `document.getElementById("work").value = "20s"`)
	press(p, "start2")
	p.Until(5*time.Second, "2 waits", `document.querySelector("#rows .waits")`)
	p.Until(15*time.Second, "1 is done", says("result-lock1", "released the lock"))
	p.Until(5*time.Second, "2 holds", strings.ReplaceAll(holds, "%s", "2"))
	press(p, "cut2")
	p.Until(2*time.Second, "2 is cut off", `document.querySelector("#instance2 .badge.warning")`)
	press(p, "start1")
	p.Until(10*time.Second, "1 takes over", strings.ReplaceAll(holds, "%s", "1"))
	press(p, "mend2")
	p.Until(4*time.Second, "2 is refused", says("result-lock2", "It wrote nevertheless: refused."))
	press(p, "kill1")
	p.Until(5*time.Second, "1 is killed", says("result-lock1", "Instance 1 was killed"))
	press(p, "start2")
	p.Until(10*time.Second, "2 takes over", strings.ReplaceAll(holds, "%s", "2"))
	p.Visit(d.url + "/lock?name=lock")
	p.Until(5*time.Second, "the page of the lock", `document.body.innerText.includes("instance 2")`)
	p.Visit(d.url + "/event-log")
	p.Until(5*time.Second, "the event log", `document.getElementById("rows").innerText.includes("acquired")`)
	p.Visit(d.url + "/demo")
	p.Until(5*time.Second, "2 still holds", strings.ReplaceAll(holds, "%s", "2"))
}

// press presses a button by its id: in one step, because an update may replace it.
func press(p *browser.Tab, id string) {
	p.Helper()
	browser.Eval[bool](p, fmt.Sprintf("(document.getElementById(%q).click(), true)", id))
}

// mustServeAll fails for what would keep people from using the page.
func mustServeAll(p *browser.Tab, when string) {
	p.Helper()
	for _, problem := range p.Audit() {
		p.Errorf("%s: %s", when, problem)
	}
}

// withoutScript uses forms and loads the page again, also to see who holds a lock.
func withoutScript(t *testing.T, binary string) {
	d := serve(t, binary)
	s := screens()["desktop"]
	s.NoJS = true
	p := open(t, s)
	p.Visit(d.url + "/demo")
	press(p, "sell")
	p.Until(10*time.Second, "oversold", says("result-sale0", " sold too many"))
	press(p, "start1")
	p.Until(10*time.Second, "1 holds", `document.getElementById("rows").innerText.includes("instance 1")`)
	press(p, "kill1")
	p.Until(10*time.Second, "1 is killed", says("result-lock1", "was killed"))
	press(p, "startboth")
	p.Until(15*time.Second, "somebody holds, and somebody waits", `document.querySelector(".block.holds") && document.querySelector(".block.waits")`)
}

// redisGone kills Redis under the page and starts it again.
func redisGone(t *testing.T, binary string) {
	redis := redistest.Start(t)
	d := serve(t, binary, "--url", redis.URL())
	p := open(t, screens()["desktop"])
	p.Visit(d.url + "/demo")
	p.Until(5*time.Second, "the list of locks", `!document.getElementById("empty").hidden`)
	redis.Kill()
	p.Until(5*time.Second, "the page says so", `!document.getElementById("trouble").hidden`)
	p.Until(5*time.Second, "the lane of the lock says so", says("lock-now", "no answer"))
	redis.Restart()
	p.Until(10*time.Second, "it is over", `document.getElementById("trouble").hidden`)
	p.Until(10*time.Second, "the lane of the lock shows it", says("lock-now", "nobody holds it"))
	if r := <-d.post("/lock1", "work", "10ms"); r.Outcome != "done" {
		t.Errorf("afterwards: got %+v", r)
	}
}

// serverGone ends the server under the page, which says so.
func serverGone(t *testing.T, binary string) {
	d := serve(t, binary)
	p := open(t, screens()["desktop"])
	p.Visit(d.url + "/demo")
	p.Until(5*time.Second, "the list of locks", `!document.getElementById("empty").hidden`)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.Until(8*time.Second, "the page says so", `!document.getElementById("cut").hidden`)
	p.Forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING")
}
