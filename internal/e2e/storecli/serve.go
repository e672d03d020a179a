//go:build unix

package storecli

import (
	"bufio"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/await"
)

// Shown is what a store knows of its locks, beside the holders.
type Shown struct {
	Queue     bool // the waiters of a mutex
	Nameless  bool // of waiters only their owners
	Rest      bool // what is left of a lease
	Granted   bool // when a lock was granted
	ReadWrite bool // read-write locks, which not every store has
}

// site is the tool at work as a web server.
type site struct {
	*Program
	client *http.Client
	at     string // its address, with a slash at the end
}

// serve starts a site with the names that begin with prefix.
func (c *Tool) serve(prefix string) *site {
	c.t.Helper()
	p := c.Start("serve", "--listen", "127.0.0.1:0", "--allow-unlock", "--names", prefix)
	p.Await(" are at http://")
	transport := &http.Transport{}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &site{
		Program: p, at: regexp.MustCompile(`http://\S+/`).FindString(p.said.String()),
		client: &http.Client{Transport: transport, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// get returns a page as its reader sees it: without the escapes of HTML.
func (s *site) get(path string) string {
	s.t.Helper()
	r, err := s.client.Get(s.at + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("%q: got status %d, %v: %s", path, r.StatusCode, err, body)
	}
	return html.UnescapeString(string(body))
}

// until returns a page that has all of texts, as soon as it has.
func (s *site) until(path string, texts ...string) (page string) {
	s.t.Helper()
	if !await.Eventually(20*time.Second, func() bool {
		page = s.get(path)
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(page, text) })
	}) {
		s.t.Fatalf("page %q has not all of %q: %s", path, texts, page)
	}
	return page
}

// part returns what is in page between two texts.
func (s *site) part(page, from, to string) string {
	s.t.Helper()
	_, after, begins := strings.Cut(page, from)
	part, _, ends := strings.Cut(after, to)
	if !begins || !ends {
		s.t.Fatalf("nothing is between %q and %q in: %s", from, to, page)
	}
	return part
}

// has fails unless a part of a page has text exactly if it should.
func (s *site) has(part, text string, should bool) {
	s.t.Helper()
	if strings.Contains(part, text) != should {
		s.t.Errorf("got %q: %v, want %v, in: %s", text, !should, should, part)
	}
}

// hold checks how a page shows a hold: with a lease and a time, or that they are not known.
func (s *site) hold(part string, shown Shown) {
	s.t.Helper()
	s.has(part, "holdfast@", true)
	s.has(part, "maintenance", true)
	s.has(part, "<progress", shown.Rest)
	s.has(part, "end unknown", !shown.Rest)
	s.has(part, "data-least", !shown.Granted)
	s.has(part, "≥ ", !shown.Granted)
}

// served: the pages show what the store knows of its locks, and leave out what it does not;
// a lock is forced through them.
func served(t *testing.T, c *Tool) {
	h := c.Hold("served")
	next := c.Start("run", "-t", "20s", "--reason", "the next", "served", "--", "echo", "it runs")
	next.Await(`waiting for lock "served"`)
	s := c.serve("served")
	s.locks(c.store.Shown)
	s.lock(c.store.Shown)
	s.others(c.store)
	if c.store.Shown.ReadWrite {
		reader := c.Start("hold", "-t", "5s", "--shared", "--reason", "a reader", "served too")
		reader.Await(`held "served too"`)
		row := s.part(s.until("", "served too", "a reader"), ">served too<", "</tr>")
		s.has(row, "read-write", true)
		s.has(row, ">reads<", true)
	}
	s.updates()
	s.force(c.store.Shown)
	h.Want(79, `lock "served" lost`, "it is stuck (on the dashboard)")
	next.Want(0, "it runs")
	log := s.until("event-log", "forced", "it is stuck")
	s.has(log, "This store has no event log", true)
	s.has(log, " 0 at once", false)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.Want(0, "force-unlocked")
}

// locks: the list has the lock, with as many waiters as the store knows of.
func (s *site) locks(shown Shown) {
	s.t.Helper()
	texts := []string{">served<"}
	if shown.Queue {
		texts = append(texts, "in queue")
	}
	page := s.until("", texts...)
	row := s.part(page, ">served<", "</tr>")
	s.hold(row, shown)
	s.has(row, "the store does not show whether clients wait", !shown.Queue)
	s.has(row, ">0<", false)
	figures := s.part(page, `id="figures"`, "</nav>")
	s.has(figures, "1 waiting", shown.Queue)
	s.has(figures, "<b>–</b> contended", !shown.Queue)
}

// lock: the page of the lock has its holder and its token, and the waiter if the store
// knows it.
func (s *site) lock(shown Shown) {
	s.t.Helper()
	page := s.until("lock?name=served", "maintenance", "holdfast force-unlock --holder ")
	glance := s.part(page, `<dl class="glance">`, "</dl>")
	hold, waiting, _ := strings.Cut(glance, "<dt>Waiting</dt>")
	s.hold(hold, shown)
	if token := regexp.MustCompile(`<dt>Fencing token</dt><dd>(\d+)</dd>`).FindStringSubmatch(glance); token == nil || token[1] == "0" {
		s.t.Errorf("no token in: %s", glance)
	}
	s.has(s.part(page, "</dl>", `<details class="cli"`), "the next", shown.Queue && !shown.Nameless)
	s.has(waiting, "the store does not show whether clients wait", !shown.Queue)
	s.has(page, "listens for a release", false) // no other store than Redis counts them
	s.has(page, "No client waited", false)
}

// others: the page of the holders has both processes if the store knows them, and that of
// the health has the name of the store and what doctor finds.
func (s *site) others(store Store) {
	s.t.Helper()
	page := s.until("holders", "maintenance", ">served<")
	s.has(page, "the next", store.Shown.Queue && !store.Shown.Nameless)
	s.until("health", "<dt>Store</dt><dd>"+store.Backend+"</dd>", "<dt>Answers</dt><dd>yes</dd>", "a test lock works")
	if got := s.get("healthz"); got != "ok\n" {
		s.t.Errorf("healthz: got %q", got)
	}
	s.until("metrics", "holdfast_serve_store_up 1")
}

// updates: a browser gets the row of the lock as JSON, by a stream and by polling.
func (s *site) updates() {
	s.t.Helper()
	check := func(text string) {
		s.t.Helper()
		var f struct{ HTML map[string]string }
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		for _, part := range f.HTML {
			if strings.Contains(part, ">served<") && strings.Contains(part, "maintenance") {
				return
			}
		}
		s.t.Errorf("no row of the lock in: %s", text)
	}
	r, err := s.client.Get(s.at + "frame?view=")
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		s.t.Fatal(err)
	}
	check(string(text))
	if r, err = s.client.Get(s.at + "events?view="); err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			check(data)
			return
		}
	}
	s.t.Error("the stream ended before the first update")
}

// force forces the lock as people do, and once more, which is too late.
func (s *site) force(shown Shown) {
	s.t.Helper()
	page := s.get("unlock?name=served")
	s.hold(page, shown)
	s.has(page, "unknown: the store does not show renewals", !shown.Rest)
	s.has(page, "The lease ends within", shown.Rest) // it lasts for 5 s
	form := url.Values{"confirm": {"served"}, "reason": {"it is stuck"}}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		form.Set(field[1], field[2])
	}
	for _, want := range []int{http.StatusSeeOther, http.StatusConflict} {
		r, err := s.client.PostForm(s.at+"unlock", form)
		if err != nil {
			s.t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != want {
			s.t.Fatalf("got status %d, want %d: %s", r.StatusCode, want, body)
		}
	}
}
