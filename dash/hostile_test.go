package dash_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/memhold"
)

// hostile are names that want to be something else.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
		`</title><svg onload=alert(1)>`, `{{.}}`, `../../etc/passwd`, `a?b=c&d#e`, `%3Cscript%3E`,
		"nul\x00in it", "two\nlines", "tab\tand\rreturn", "\xff\xfe not UTF-8", "right\u202eleft", "\u200binvisible", " ", "\u2028",
		"]]>", "<!--", `\`, strings.Repeat("long", 1000), strings.Repeat("\u00e9", 1024), strings.Repeat("<", 70000),
	}
}

func TestHostileNames(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for _, name := range hostile() {
			locker := holdfast.New(s.store.Backend, &holdfast.Options{Note: name})
			lock, err := locker.TryLock(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
		}
		st := s.follow("view=", "")
		defer st.close()
		f, _ := st.until(3*time.Second, "alert(1)")
		pages := map[string]string{"the stream": f.all()}
		for _, path := range []string{"/", "/holders", "/event-log", "/health"} {
			pages[path] = s.get(path).body
		}
		for _, name := range hostile() {
			if len(name) <= 4096 {
				path := "/lock?name=" + url.QueryEscape(name)
				a := s.get(path)
				if pages[path] = a.body; a.status != http.StatusOK || !strings.Contains(a.body, "Held by") {
					t.Errorf("%s: got status %d and no holder", path, a.status)
				}
			}
		}
		for path, body := range pages {
			checkPage(t, path, body)
		}
		if !strings.Contains(pages["/"], `two\nlines`) || !strings.Contains(pages["/"], `\xff\xfe not UTF-8`) || !strings.Contains(pages["/"], `right\u202eleft`) {
			t.Errorf("names are not shown for what they are:\n%s", pages["/"])
		}
	})
}

// checkPage checks that no name has brought anything into the page.
func checkPage(t *testing.T, path, body string) {
	t.Helper()
	if bad := regexp.MustCompile(`<script>|<img|onerror=alert\(1\)>|<svg onload|='alert|href="javascript|\x00|\x{202e}|\x{200b}|\x{2028}`).FindString(body); bad != "" {
		t.Errorf("%s has %q", path, bad)
	}
	for _, tag := range regexp.MustCompile(`<[a-zA-Z!/][^>]*>`).FindAllString(body, -1) {
		if regexp.MustCompile(`\son[a-z]+\s*=\s*[^"]`).MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`)) {
			t.Errorf("%s has the tag %s", path, tag)
		}
	}
	for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
		if u, err := url.Parse(m[1]); err != nil || u.Scheme != "" || u.Host != "" {
			t.Errorf("%s has the address %q", path, m[1])
		}
	}
}

func TestHostileSearch(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for _, find := range hostile() {
			for _, page := range []string{"/", "/event-log"} {
				path := page + "?q=" + url.QueryEscape(find) + "&sort=" + url.QueryEscape(find) + "&page=" + url.QueryEscape(find)
				if len(path) > 30_000 {
					continue
				}
				a := s.get(path)
				if a.status != http.StatusOK {
					t.Errorf("%.80s: got status %d", path, a.status)
				}
				checkPage(t, path, a.body)
			}
		}
	})
}

// FuzzRequest sends any path and query: the answer is a page or an error page, with all
// headers that protect it, and never a panic.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/", "", "")
	f.Add("GET", "/lock", "name=a", "")
	f.Add("GET", "/../static/dash.js", "v=..", "")
	f.Add("POST", "/unlock", "", "name=YQ&owner=YQ&holds=1&token=1&confirm=a&reason=b")
	f.Add("GET", "//static//", "name=%00", "")
	f.Add("GET", "/frame", "view=lock&name=%ff&since=-1", "")
	f.Add("GET", "/static/", "", "")
	f.Add("A", "", "0", "0")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if !regexp.MustCompile(`^[A-Z]+$`).MatchString(method) || path == "/events" {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			b := memhold.New()
			lock, err := holdfast.New(b, nil).TryLock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
			d := dash.Handler(admin.New(b), &dash.Options{
				AllowUnlock: true, Authorize: func(*http.Request) dash.Role { return dash.Operator },
			})
			defer d.Close()
			r := httptest.NewRequest(method, "/", strings.NewReader(body))
			r.URL.Path, r.URL.RawQuery = path, query
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if path == "" { // as of a request for the host alone
				if to := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || to != "/" {
					t.Errorf("%s without a path: got status %d and %q, want 301 and the first page", method, w.Code, to)
				}
				return
			}
			if !slices.Contains([]int{200, 303, 304, 400, 403, 404, 405, 409, 422}, w.Code) {
				t.Errorf("%s %q?%q: got status %d", method, path, query, w.Code)
			}
			if w.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("%s %q: no policy", method, path)
			}
			if to := w.Header().Get("Location"); to != "" && (!strings.HasPrefix(to, "/lock?name=") || w.Code != 303) {
				t.Errorf("%s %q: sent to %q", method, path, to)
			}
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
				checkPage(t, path, w.Body.String())
			}
		})
	})
}

func TestWordsToType(t *testing.T) {
	inBubble(t, &dash.Options{AllowUnlock: true, Authorize: func(*http.Request) dash.Role { return dash.Operator }}, func(t *testing.T, s *site) {
		for name, want := range map[string]string{
			"plain":                  "plain",
			strings.Repeat("x", 500): strings.Repeat("x", 40),
			"a\tb":                   `a\tb`,
			"  spaces  ":             "spaces",
		} {
			s.lock(name)
			a := s.force(s.form(name, want, "test"))
			if a.status != http.StatusSeeOther {
				t.Errorf("%q, typed %q: got status %d: %s", name, want, a.status, a.body)
			}
		}
		if got := fmt.Sprint(s.get("/unlock?name=" + strings.Repeat("x", 5000)).status); got != "404" {
			t.Errorf("a name that is too long for a page: got status %s, want 404", got)
		}
	})
}

// Another site cannot make a browser use up the views of the users.
func TestUpdatesAreForOwnPages(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for _, path := range []string{"/events?view=", "/frame?view="} {
			for from, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200, "": 200} {
				r := s.request(http.MethodGet, path, nil)
				if from != "" {
					r.Header.Set("Sec-Fetch-Site", from)
				}
				response, err := s.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != want {
					t.Errorf("%s from %q: got status %d, want %d", path, from, response.StatusCode, want)
				}
			}
		}
	})
}

// A command that a page shows does not take a name for a flag.
func TestCommandsTakeAnyName(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("--help")
		body := html.UnescapeString(s.get("/lock?name=--help").body)
		if !strings.Contains(body, "holdfast inspect -- --help<") ||
			!regexp.MustCompile(`holdfast force-unlock --holder \S+ --reason '…' -- --help<`).MatchString(body) {
			t.Errorf("the commands are not there:\n%s", body)
		}
	})
}
