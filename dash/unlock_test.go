package dash_test

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/dash"
)

// operators is a dashboard on which ada may force locks, with its log.
func operators(role dash.Role) (*dash.Options, *bytes.Buffer) {
	var log bytes.Buffer
	return &dash.Options{
		AllowUnlock: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Authorize: func(*http.Request) dash.Role { return role },
		User:      func(*http.Request) string { return "ada\n" },
	}, &log
}

// form returns the form on the page for name, filled in.
func (s *site) form(name, typed, reason string) url.Values {
	s.Helper()
	page := s.get("/unlock?name=" + url.QueryEscape(name))
	if page.status != http.StatusOK {
		s.Fatalf("got status %d: %s", page.status, page.body)
	}
	values := url.Values{"confirm": {typed}, "reason": {reason}}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`).FindAllStringSubmatch(page.body, -1) {
		values.Set(m[1], html.UnescapeString(m[2]))
	}
	return values
}

func (s *site) force(values url.Values) answer {
	s.Helper()
	r := s.request(http.MethodPost, "/unlock", values)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.send(r)
}

func TestUnlock(t *testing.T) {
	options, log := operators(dash.Operator)
	inBubble(t, options, func(t *testing.T, s *site) {
		time.Sleep(time.Second)
		name := "deploy/<prod>\x00"
		lock := s.lock(name)
		time.Sleep(15 * time.Second)
		s.shows("/lock?name="+url.QueryEscape(name), "Force unlock…")
		if body := s.get("/unlock?name=" + url.QueryEscape(name)).body; !strings.Contains(body, "The holder is not stopped.") ||
			!strings.Contains(body, `Type <code>deploy/&lt;prod&gt;\x00</code>`) {
			t.Fatalf("got\n%s", body)
		}
		a := s.force(s.form(name, `deploy/<prod>\x00`, "host is gone"))
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "lock?name=deploy%2F%3Cprod%3E%00" {
			t.Fatalf("got status %d to %q: %s", a.status, a.header.Get("Location"), a.body)
		}
		time.Sleep(15 * time.Second) // a renewal
		if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "host is gone (ada") {
			t.Errorf("the holder was told %v, want the reason", err)
		}
		for _, want := range []string{"level=WARN", "force-unlocked", `user=ada\n `, `reason="host is gone"`, "address=", "holder=", "token="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %s in the log: %s", want, log)
			}
		}
		body := s.get("/lock?name=" + url.QueryEscape(name)).body
		if !strings.Contains(body, "forced") || !strings.Contains(body, "taken from app@host:1, held for 15s: host is gone (ada\\n, on the dashboard)") || strings.Contains(body, "released") {
			t.Errorf("the timeline does not tell:\n%s", body)
		}
	})
}

// A released name that stays taken is shown with the time, and with its last owner: nobody
// holds it. An operator frees it.
func TestUnlockOfAKeptName(t *testing.T) {
	options, _ := operators(dash.Operator)
	inBubble(t, options, func(t *testing.T, s *site) {
		stream := s.follow("view=", "")
		defer stream.close()
		time.Sleep(3 * time.Second)
		lock := s.lock("deploy", holdfast.AtLeast(time.Hour))
		end := time.Now().Add(time.Hour)
		time.Sleep(3 * time.Second)
		if err := lock.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		taken := fmt.Sprintf(`taken until <time datetime="%s" data-at="%d">%s</time>, kept by <span class="who">app@host:1</span>`, end.UTC().Format("2006-01-02T15:04:05.000Z"), end.UnixMilli(), end.Format(time.TimeOnly))
		for path, want := range map[string]string{"/": taken, "/lock?name=deploy": taken, "/holders": "No lock is held"} {
			body := s.get(path).body
			if !strings.Contains(body, want) || strings.Contains(body, `class="ago"`) || strings.Contains(body, "unless it is renewed") || path == "/" && !strings.Contains(body, "<b>0</b> held") {
				t.Errorf("%s: no %q, or a hold, in\n%s", path, want, body)
			}
		}
		if a := s.force(s.form("deploy", "deploy", "not today")); a.status != http.StatusSeeOther {
			t.Fatalf("got status %d: %s", a.status, a.body)
		}
		s.lock("deploy")
		time.Sleep(5 * time.Second)
		body := s.get("/event-log").body
		for event, want := range map[string]int{"acquired": 2, "released": 1, "forced": 1} {
			if n := strings.Count(body, `<span class="event">`+event+`</span>`); n != want {
				t.Errorf("%d events of a name %s, want %d:\n%s", n, event, want, body)
			}
		}
	})
}

func TestUnlockIsRefused(t *testing.T) {
	const name = "deploy"
	for title, test := range map[string]struct {
		typed, reason string
		change        func(*site, url.Values)
		header        [2]string
		want          int
	}{
		"wrong name":         {"deplo", "why", nil, [2]string{}, 422},
		"nothing typed":      {"", "why", nil, [2]string{}, 422},
		"no reason":          {name, " \t", nil, [2]string{}, 422},
		"another count":      {name, "why", func(_ *site, v url.Values) { v.Set("holds", "2") }, [2]string{}, 409},
		"another token":      {name, "why", func(_ *site, v url.Values) { v.Set("token", "1") }, [2]string{}, 409},
		"another holder":     {name, "why", func(_ *site, v url.Values) { v.Set("owner", "bm9ib2R5") }, [2]string{}, 409},
		"broken form":        {name, "why", func(_ *site, v url.Values) { v.Set("name", "***") }, [2]string{}, 400},
		"no number":          {name, "why", func(_ *site, v url.Values) { v.Set("holds", "x") }, [2]string{}, 400},
		"large form":         {name, "why", func(_ *site, v url.Values) { v.Set("pad", strings.Repeat("x", 1<<17)) }, [2]string{}, 400},
		"another site":       {name, "why", nil, [2]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another port":       {name, "why", nil, [2]string{"Sec-Fetch-Site", "same-site"}, 403},
		"another origin":     {name, "why", nil, [2]string{"Origin", "http://evil.example"}, 403},
		"released meanwhile": {name, "why", func(s *site, _ url.Values) { s.store.Drop(name) }, [2]string{}, 409},
	} {
		t.Run(title, func(t *testing.T) {
			options, log := operators(dash.Operator)
			inBubble(t, options, func(t *testing.T, s *site) {
				lock := s.lock(name)
				values := s.form(name, test.typed, test.reason)
				if test.change != nil {
					test.change(s, values)
				}
				r := s.request(http.MethodPost, "/unlock", values)
				if test.header[0] != "" {
					r.Header.Set(test.header[0], test.header[1])
				}
				a := s.send(r)
				if a.status != test.want {
					t.Errorf("got status %d, want %d: %s", a.status, test.want, a.body)
				}
				if a.status == 422 && !strings.Contains(a.body, `maxlength="500" value="`+strings.TrimSpace(test.reason)+`"`) {
					t.Errorf("the reason that was typed is gone: %s", a.body)
				}
				records, err := s.store.Backend.Get(t.Context(), name)
				if err != nil || records[0].Holders == 1 == (title == "released meanwhile") {
					t.Errorf("got %v, %v", records, err)
				}
				if err := lock.Err(); err != nil {
					t.Errorf("the lock says %v", err)
				}
				if n := strings.Count(log.String(), "force-unlock refused"); n != 1 || strings.Contains(log.String(), "force-unlocked") {
					t.Errorf("the log says %q", log)
				}
			})
		})
	}
}

func TestUnlockIsOff(t *testing.T) {
	viewers, _ := operators(dash.Viewer)
	off, _ := operators(dash.Operator)
	off.AllowUnlock = false
	nobody, _ := operators(dash.Operator)
	nobody.Authorize = nil
	for title, options := range map[string]*dash.Options{"for viewers": viewers, "for all": off, "without Authorize": nobody, "by default": nil} {
		t.Run(title, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, s *site) {
				s.lock("deploy")
				if body := s.get("/lock?name=deploy").body; strings.Contains(body, "Force unlock") {
					t.Error("the page of the lock offers it")
				}
				s.wantStatus(http.StatusForbidden, "/unlock?name=deploy")
				if a := s.force(url.Values{"name": {"ZGVwbG95"}, "confirm": {"deploy"}, "reason": {"x"}, "holds": {"1"}, "token": {"0"}}); a.status != http.StatusForbidden {
					t.Errorf("POST: got status %d, want 403", a.status)
				}
			})
		})
	}
}

// A second hold that began after the page was made is not the one that was shown,
// although everything but the token may be the same.
func TestUnlockTwice(t *testing.T) {
	options, _ := operators(dash.Operator)
	inBubble(t, options, func(t *testing.T, s *site) {
		s.lock("deploy")
		values := s.form("deploy", "deploy", "stuck")
		if got := s.force(values).status; got != http.StatusSeeOther {
			t.Fatalf("got status %d, want 303", got)
		}
		other := holdfast.New(s.store.Backend, nil)
		next, err := other.TryLock(t.Context(), "deploy")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.force(values).status; got != http.StatusConflict {
			t.Errorf("got status %d for the same form again, want 409", got)
		}
		if err := next.Unlock(); err != nil {
			t.Errorf("the next holder has lost it: %v", err)
		}
	})
}

// A name of spaces only has to be typed as well.
func TestUnlockSpaces(t *testing.T) {
	options, _ := operators(dash.Operator)
	inBubble(t, options, func(t *testing.T, s *site) {
		lock := s.lock("  ")
		for _, typed := range []string{"", " "} {
			if got := s.force(s.form("  ", typed, "why")).status; got != http.StatusUnprocessableEntity {
				t.Errorf("%q: got status %d, want 422", typed, got)
			}
		}
		if err := lock.Unlock(); err != nil {
			t.Errorf("the holder got %v", err)
		}
		s.lock("  ")
		if a := s.force(s.form("  ", "  ", "why")); a.status != http.StatusSeeOther || a.header.Get("Location") != "lock?name=++" {
			t.Errorf("got status %d to %q, want 303", a.status, a.header.Get("Location"))
		}
	})
}
