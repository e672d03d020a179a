package dash_test

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

func TestPagesShowWhatIsLocked(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("deploy/prod")
		time.Sleep(65 * time.Second)
		for path, want := range map[string][]string{
			"/":                        {"deploy/prod", "app@host:1", "1m 05s", "<progress", "<b>1</b> name<", "<b>1</b> held"},
			"/lock?name=deploy%2Fprod": {"deploy/prod", "app@host:1", "holdfast inspect -- deploy/prod", "Fencing token", "The command line can force this lock."},
			"/holders":                 {"app@host:1", `href="lock?name=deploy%2Fprod"`},
			"/event-log":               {"<h2>Events</h2>", "since the dashboard began to poll"},
			"/health":                  {"Names in use", "holdfast doctor"},
			"/lock?name=other":         {"Free: no client holds it."},
			"/?q=nothing":              {"No lock matches the search.", `<b>0</b> names <span class="more">of 1</span>`},
		} {
			a := s.get(path)
			if a.status != http.StatusOK {
				t.Errorf("%s: got status %d, want 200", path, a.status)
			}
			for _, text := range want {
				if !strings.Contains(a.body, text) {
					t.Errorf("%s: no %q in\n%s", path, text, a.body)
				}
			}
			if strings.Contains(a.body, "<script>") || strings.Contains(a.body, " style=") || regexp.MustCompile(` on\w+=`).MatchString(a.body) {
				t.Errorf("%s: the page has something inline, which its policy forbids", path)
			}
		}
	})
}

func TestHeaders(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for _, path := range []string{"/", "/lock?name=x", "/static/dash.js", "/none", "/unlock", "/frame?view=none"} {
			h := s.get(path).header
			policy := h.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s: the policy %q lacks %q", path, policy, want)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Errorf("%s: the policy %q allows what is inline", path, policy)
			}
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
				t.Errorf("%s: got headers %v", path, h)
			}
		}
	})
}

func TestStreamTellsWhatChanges(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("first", holdfast.FixedLease(time.Hour))
		time.Sleep(time.Second)
		st := s.follow("view=", "")
		defer st.close()
		f, ok := st.next()
		if !ok || !f.Full || f.ID == 0 || f.AsOf == 0 || f.HTML["figures"] == "" {
			t.Fatalf("got first frame %+v, want everything", f)
		}
		if !strings.Contains(f.all(), "<b>1</b> held") { // the walk was later than the first look
			f, _ = st.until(3*time.Second, "<b>1</b> held")
		}

		second := s.lock("second")
		seen, _ := st.until(3*time.Second, "second")
		if seen.Full || strings.Contains(seen.all(), "first<") || len(seen.Order) != 2 || seen.ID <= f.ID {
			t.Fatalf("got frame %+v, want only what is new", seen)
		}

		must.Unlock(t, second)
		freed := time.Now()
		for gone := seen; len(gone.Order) != 1; {
			var ok bool
			if gone, ok = st.next(); !ok {
				t.Fatal("the stream ended")
			}
		}
		if took := time.Since(freed); took > time.Second {
			t.Fatalf("a row that was shown was seen to be free after %v, want within 1s", took)
		}
	})
}

func TestNothingIsSentWhileNothingHappens(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("quiet", holdfast.FixedLease(time.Hour))
		time.Sleep(time.Second)
		st := s.follow("view=", "")
		defer st.close()
		st.until(2*time.Second, "quiet")
		began, frames := time.Now(), 0
		for time.Since(began) < 30*time.Second {
			f, ok := st.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if frames++; strings.Contains(f.all(), "quiet<") {
				t.Fatalf("the row was sent again: %s", f.all())
			}
		}
		if frames > 34 {
			t.Fatalf("got %d frames in 30s, want about one a second", frames)
		}
	})
}

func TestStreamResumes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("first", holdfast.FixedLease(time.Hour))
		time.Sleep(time.Second)
		st := s.follow("view=", "")
		f, _ := st.until(2*time.Second, "first")
		st.close()

		s.lock("second")
		time.Sleep(5 * time.Second)
		other := s.follow("view=", "") // keeps the page up to date for both
		defer other.close()
		other.until(3*time.Second, "second")

		st = s.follow("view=", fmt.Sprint(f.ID))
		missed, _ := st.until(2*time.Second, "second")
		st.close()
		if missed.Full || strings.Contains(missed.all(), "first<") || len(missed.Order) != 2 {
			t.Errorf("got frame %+v after %d, want what was missed", missed, f.ID)
		}

		st = s.follow("view=", "17") // of another time
		defer st.close()
		if all, _ := st.until(2*time.Second, "second"); !all.Full || !strings.Contains(all.all(), "first") {
			t.Errorf("got frame %+v after an unknown one, want everything", all)
		}
	})
}

func TestPolling(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("first", holdfast.FixedLease(time.Hour))
		time.Sleep(time.Second)
		s.get("/") // finds it
		time.Sleep(time.Second)
		body := s.get("/frame?view=").body
		if !strings.Contains(body, `"full":true`) || !strings.Contains(body, "first") {
			t.Fatalf("got frame %s, want everything", body)
		}
		id := regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(body)[1]
		if next := s.get("/frame?view=&since=" + id).body; strings.Contains(next, "first<") || strings.Contains(next, `"full"`) {
			t.Fatalf("got frame %s after %s, want what has changed", next, id)
		}
	})
}

// Many browsers cost the store no more than one, and none costs nothing.
func TestOneWatcherForAll(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 10 {
			s.lock(fmt.Sprint("lock", i), holdfast.FixedLease(time.Hour))
		}
		var streams []*stream
		for range 20 {
			st := s.follow("view=", "")
			st.next()
			streams = append(streams, st)
		}
		before := s.store.count()
		began := time.Now()
		for time.Since(began) < 9*time.Second {
			for _, st := range streams {
				st.next()
			}
		}
		if looked := s.store.count() - before; looked > 11*10 {
			t.Errorf("20 browsers made %d looks in 9s, want 10 a round", looked)
		}
		if got := s.d.Stats().Viewers; got != 20 {
			t.Errorf("got %d viewers, want 20", got)
		}
		for _, st := range streams {
			st.close()
		}
		time.Sleep(15 * time.Second) // the watcher lingers
		before = s.store.count()
		time.Sleep(time.Minute)
		if looked := s.store.count() - before; looked != 0 {
			t.Errorf("the store was asked %d times while nobody looked", looked)
		}
	})
}

// Whatever is on the pages, the store is not asked more than the budget allows.
func TestBudget(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 300 {
			s.lock(fmt.Sprintf("lock%03d", i), holdfast.FixedLease(time.Hour))
		}
		for page := 1; page <= 6; page++ {
			st := s.follow(fmt.Sprintf("view=&page=%d", page), "")
			defer st.close()
			go func() {
				for _, ok := st.next(); ok; {
					_, ok = st.next()
				}
			}()
		}
		time.Sleep(5 * time.Second)
		before := s.store.count()
		time.Sleep(60 * time.Second)
		if looked := s.store.count() - before; looked > 60*32+32 || looked < 60*28 {
			t.Errorf("got %d looks in a minute, want about 32 a second", looked)
		}
	})
}

func TestStoreThatFails(t *testing.T) {
	for name, fail := range map[string]func(*store, bool){
		"refuses": func(s *store, down bool) {
			if down {
				s.set(errDown, false)
			} else {
				s.set(nil, false)
			}
		},
		"is mute": func(s *store, down bool) { s.set(nil, down) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, s *site) {
				s.lock("held", holdfast.FixedLease(time.Hour))
				time.Sleep(time.Second)
				st := s.follow("view=", "")
				defer st.close()
				st.until(2*time.Second, "held")
				fail(s.store, true)
				f, took := st.until(5*time.Second, "has not answered since")
				if took > 2*time.Second {
					t.Errorf("shown after %v, want within 2s", took)
				}
				if len(f.Order) != 1 {
					t.Errorf("got rows %v while the store is silent, want the last known", f.Order)
				}
				if body := s.get("/").body; !strings.Contains(body, "As of ") || !strings.Contains(body, "held") {
					t.Errorf("the page says\n%s", body)
				}
				if s.d.Stats().Failing.IsZero() {
					t.Error("Stats say that the store answers")
				}
				fail(s.store, false)
				if _, took := st.until(5*time.Second, `id="trouble" class="trouble" hidden`); took > 2*time.Second {
					t.Errorf("recovered after %v, want within 2s", took)
				}
			})
		})
	}
}

// unlistable is a store that cannot list its locks.
type unlistable struct{ driver.Backend }

func TestStoreThatCannotList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dash.Handler(admin.New(unlistable{memhold.New()}), nil)
		defer d.Close()
		for range 2 {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "cannot list its locks") {
				t.Fatalf("got %d: %s", w.Code, w.Body)
			}
		}
	})
}

func TestLink(t *testing.T) {
	for _, c := range []struct {
		link dash.Link
		want bool
	}{
		{dash.Link{}, false},
		{dash.Link{Title: "Prices & more", Address: "prices"}, true},
	} {
		inBubble(t, &dash.Options{Link: c.link}, func(t *testing.T, s *site) {
			for _, page := range []string{"/", "/holders", "/lock?name=x"} {
				body := s.shows(page, "Health</a>")
				if got := strings.Contains(body, `<a href="prices">Prices &amp; more</a>`); got != c.want {
					t.Errorf("%s with %+v: a link is there: %t, want %t", page, c.link, got, c.want)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.shows("/", `href="./?sort=name"`, `role="rowgroup"></tbody>`) // the style sheet hides a table without rows
		free := s.d.Table()
		lock := s.lock("deploy/prod")
		time.Sleep(2 * time.Second)
		held := s.d.Table()
		must.Unlock(t, lock)
		row := `<a href="lock?name=deploy%2Fprod">`
		for _, c := range []struct {
			when  string
			table template.HTML
			has   []string
			lacks []string
		}{
			{"free", free, []string{`class="lease">Lease left</th>`, `role="rowgroup"></tbody>`, `class="empty">No lock is held.`}, []string{row, "sort="}},
			{"held", held, []string{`class="lease">Lease left</th>`, row, "app@host:1", "<progress", `class="empty" hidden>`}, []string{"sort="}},
		} {
			for _, text := range c.has {
				if !strings.Contains(string(c.table), text) {
					t.Errorf("%s: no %q in\n%s", c.when, text, c.table)
				}
			}
			for _, text := range c.lacks {
				if strings.Contains(string(c.table), text) {
					t.Errorf("%s: %q in\n%s", c.when, text, c.table)
				}
			}
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		st := s.follow("view=", "")
		defer st.close()
		st.next()
		s.d.Close()
		s.d.Close()
		for ok := true; ok; {
			_, ok = st.next()
		}
		if a := s.get("/"); a.status != http.StatusServiceUnavailable {
			t.Errorf("got status %d after Close, want 503", a.status)
		}
		if err := s.d.Watch(t.Context()); err != nil {
			t.Errorf("Watch after Close: %v", err)
		}
	})
}

func TestWatchKeepsEvents(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error)
		go func() { watched <- s.d.Watch(ctx) }()
		time.Sleep(3 * time.Second)
		lock := s.lock("nightly")
		time.Sleep(time.Minute)
		must.Unlock(t, lock)
		time.Sleep(5 * time.Second)
		s.shows("/lock?name=nightly", "acquired", "released", "renewed", "seen for 1m", "Free: no client holds it.")
		s.lock("leased", holdfast.FixedLease(20*time.Second))
		time.Sleep(30 * time.Second)
		s.shows("/lock?name=leased", `<span class="event">expired</span> <bdi>by app@host:1, seen for 20s`)
		cancel()
		if err := <-watched; err != context.Canceled {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestPagesOfRows(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 60 {
			s.lock(fmt.Sprintf("lock%03d", i), holdfast.FixedLease(time.Duration(100-i)*time.Minute))
		}
		s.get("/") // finds the first of them
		time.Sleep(time.Second)
		for path, want := range map[string]struct {
			first, text string
			rows        int
		}{
			"/":                     {"lock000", "page 1 of 3", 25},
			"/?page=3":              {"lock050", "page 3 of 3", 10},
			"/?page=99":             {"lock050", "page 3 of 3", 10},
			"/?page=-4":             {"lock000", "page 1 of 3", 25},
			"/?sort=name":           {"lock000", `aria-sort="ascending"`, 25},
			"/?sort=-name":          {"lock059", `aria-sort="descending"`, 25},
			"/?sort=lease":          {"lock059", `aria-sort="ascending"`, 25},
			"/?q=LOCK01":            {"lock010", `<b>10</b> names <span class="more">of 60</span>`, 10},
			"/?q=app%40host&page=2": {"lock025", "page 2 of 3", 25},
			"/?sort=bogus":          {"lock000", "page 1 of 3", 25},
		} {
			body := s.get(path).body
			names := regexp.MustCompile(`<bdi>(lock\d+)</bdi>`).FindAllStringSubmatch(body, -1)
			if len(names) != want.rows || names[0][1] != want.first || !strings.Contains(body, want.text) {
				t.Errorf("%s: got %d rows %v, want %d from %s with %q", path, len(names), names, want.rows, want.first, want.text)
			}
		}
	})
}

// The page Locks begins with the names that clients wait for, then with those whose lease ends
// soon. The figures above the table count the names, and each figure leads to its names.
func TestFigures(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		ctx, end := context.WithCancel(t.Context())
		var others sync.WaitGroup
		defer func() { end(); others.Wait() }()
		others.Go(func() { _ = s.d.Watch(ctx) }) // so that the dashboard knows the leases from their beginning
		s.lock("aged")
		time.Sleep(20 * time.Second)
		if _, err := s.locker.CountDownLatch("b/gate").TrySet(ctx, 3); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			permit, err := s.locker.Semaphore("c/pool", 5).Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer permit.Unlock()
		}
		fair, err := s.locker.FairMutex("y/line").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waiting, cancel := context.WithCancel(ctx)
		var waiters sync.WaitGroup
		for range 2 {
			waiters.Go(func() {
				other := holdfast.New(s.store.Backend, nil)
				if _, err := other.FairMutex("y/line").Lock(waiting); err == nil {
					t.Error("the waiter got the lock")
				}
			})
		}
		time.Sleep(3 * time.Second)
		s.lock("z/fixed", holdfast.FixedLease(time.Minute))
		time.Sleep(40 * time.Second)

		all := []string{"y/line", "z/fixed", "aged", "b/gate", "c/pool"}
		for path, want := range map[string]struct {
			names []string
			text  string
		}{
			"/":                        {all, `<a href="./" aria-current="true"><b>5</b> names</a>`},
			"/?show=held":              {[]string{"y/line", "z/fixed", "aged", "c/pool"}, `<a href="./?show=held" aria-current="true"><b>4</b> held <span class="more">5 holds</span></a>`},
			"/?show=contended":         {[]string{"y/line"}, `<a href="./?show=contended" aria-current="true" class="alarm" title="names for which clients wait"><b>1</b> contended <span class="more">2 waiting</span></a>`},
			"/?show=ending":            {[]string{"z/fixed"}, `<b>1</b> ending soon</a>`},
			"/?show=held&sort=-held":   {[]string{"aged", "c/pool", "y/line", "z/fixed"}, `<a href="./?show=held&amp;sort=-held" title="of aged; the longest holds first"><b><span class="ago"`},
			"/?show=held&q=line":       {[]string{"y/line"}, `<a href="./?q=line&amp;show=ending" title=`},
			"/?show=contended&q=pool":  {nil, "No lock matches the search."},
			"/?show=unheard-of":        {all, `<a href="./" aria-current="true">`},
			"/?sort=waiting":           {[]string{"aged", "b/gate", "c/pool", "z/fixed", "y/line"}, `aria-sort="ascending"`},
			"/?sort=lease&show=ending": {[]string{"z/fixed"}, `<input type="hidden" name="show" value="ending">`},
		} {
			body := s.get(path).body
			var names []string
			for _, match := range regexp.MustCompile(`role="rowheader" class="name"><a href="[^"]*"><bdi>([^<]*)</bdi>`).FindAllStringSubmatch(body, -1) {
				names = append(names, match[1])
			}
			if !slices.Equal(names, want.names) || !strings.Contains(body, want.text) {
				t.Errorf("%s: got rows %v, want %v with %q in\n%s", path, names, want.names, want.text, body)
			}
		}
		s.shows("/lock?name=aged", ", unless it is renewed", " times, the last time <span")
		cancel()
		waiters.Wait()
		must.Unlock(t, fair)
		time.Sleep(3 * time.Second)
		s.shows("/?show=contended", "No lock is like that now.", "<b>–</b> contended")
	})
}

func TestKindsOfLocks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		ctx := t.Context()
		reader, err := s.locker.RWMutex("doc").Read.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Unlock()
		permit, err := s.locker.Semaphore("pool", 5).Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Unlock()
		if _, err := s.locker.CountDownLatch("gate").TrySet(ctx, 3); err != nil {
			t.Fatal(err)
		}
		fair, err := s.locker.FairMutex("line").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		other := holdfast.New(s.store.Backend, &holdfast.Options{Note: "waiter@host:2"})
		waiting, cancel := context.WithCancel(ctx)
		waited := make(chan error)
		go func() {
			_, err := other.FairMutex("line").Lock(waiting)
			waited <- err
		}()
		time.Sleep(3 * time.Second)
		s.shows("/", "reads", "1 of 5", "3 left", "in queue", "read-write", "semaphore", "latch", "fair")
		s.shows("/lock?name=line", "waiter@host:2")
		cancel()
		<-waited
		must.Unlock(t, fair)
	})
}

// A store in memory does not show the waiters of a lock without a queue: no page says that
// there are none.
func TestWaitersThatAreNotShown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("job")
		time.Sleep(3 * time.Second)
		for _, path := range []string{"/", "/lock?name=job", "/event-log"} {
			body := s.get(path).body
			for _, no := range []string{"0 waiting", `class="none">0<`, "<b>0</b> contended", "nobody", "No client waited"} {
				if strings.Contains(body, no) {
					t.Errorf("%s says %q:\n%s", path, no, body)
				}
			}
			if !strings.Contains(body, "the store does not show whether clients wait") {
				t.Errorf("%s does not say that waiters are unknown:\n%s", path, body)
			}
		}
	})
}

// The page of a lock shows the clients that report that they wait, and how many of their
// goroutines do.
func TestClientsThatWait(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		s.lock("job")
		s.store.mu.Lock()
		s.store.waits = []admin.ClientWait{
			{Client: admin.Client{Library: "holdfast", Program: "worker", Host: "web-2", PID: 77, Note: "<b>"}, Waited: 95 * time.Second, Count: 12},
			{Client: admin.Client{Library: "holdfast", Note: "me"}, Mode: driver.Shared, Waited: 5 * time.Second, Count: 1},
		}
		s.store.mu.Unlock()
		body := s.shows("/lock?name=job", "worker@web-2:77", "&lt;b&gt;", `data-label="waiters">12</td>`, "1m 35s", ">me<", `<span class="mode">to read</span>`)
		if strings.Contains(body, `<p class="none">Nobody`) {
			t.Errorf("it says that nobody waits:\n%s", body)
		}
	})
}

func TestBasePath(t *testing.T) {
	inBubble(t, &dash.Options{BasePath: "locks"}, func(t *testing.T, s *site) {
		for path, want := range map[string]int{
			"/locks/": 200, "/locks/health": 200, "/locks/static/dash.css": 200,
			"/": 404, "/health": 404, "/locksmith": 404, "/locks//": 404, "/locks/../health": 404,
			"/locks/static/../dash.go": 404, "/locks/static/": 404, "/locks/%2e%2e/": 404, "/locks/lock/": 404,
		} {
			s.wantStatus(want, path)
		}
		if a := s.get("/locks"); a.status != http.StatusMovedPermanently || a.header.Get("Location") != "/locks/" {
			t.Errorf("got %d to %q, want a redirect to /locks/", a.status, a.header.Get("Location"))
		}
	})
}

func TestPrefixLimits(t *testing.T) {
	options := &dash.Options{NamePrefix: "mine:", AllowUnlock: true, Authorize: func(*http.Request) dash.Role { return dash.Operator }}
	inBubble(t, options, func(t *testing.T, s *site) {
		s.lock("mine:a")
		s.lock("other:b")
		body := s.get("/").body
		if !strings.Contains(body, "mine:a") || strings.Contains(body, "other:b") {
			t.Errorf("got\n%s\nwant mine:a only", body)
		}
		for _, path := range []string{"/lock?name=other:b", "/lock?name=", "/unlock?name=other:b", "/events?view=lock&name=other:b"} {
			s.wantStatus(http.StatusNotFound, path)
		}
	})
}

func TestFindings(t *testing.T) {
	calls := 0
	options := &dash.Options{Findings: func(context.Context) []dash.Finding {
		calls++
		return []dash.Finding{{Severity: dash.Good, Title: "version"}, {Severity: dash.Danger, Title: "eviction", Text: "<b>", Remedy: "noeviction"}}
	}}
	inBubble(t, options, func(t *testing.T, s *site) {
		for range 3 {
			body := s.get("/health").body
			danger, fine, good := strings.Index(body, "eviction"), strings.Index(body, "1 check found no problem"), strings.Index(body, "version")
			if danger < 0 || danger > fine || fine > good || !strings.Contains(body, "&lt;b&gt;") {
				t.Errorf("got\n%s\nwant the danger first, as text, and what is good folded", body)
			}
		}
		if calls != 1 {
			t.Errorf("got %d examinations, want 1", calls)
		}
		time.Sleep(31 * time.Second)
		if s.get("/health"); calls != 2 {
			t.Errorf("got %d examinations half a minute later, want 2", calls)
		}
	})
}

// While a browser is open, each page shows how many problems the store has.
func TestProblemsInTheNavigation(t *testing.T) {
	calls := 0
	list := []dash.Finding{{Severity: dash.Warning, Title: "replicas"}, {Severity: dash.Danger, Title: "eviction"}, {Severity: dash.Note, Title: "version"}}
	options := &dash.Options{Findings: func(context.Context) []dash.Finding {
		calls++
		return list
	}}
	inBubble(t, options, func(t *testing.T, s *site) {
		s.shows("/", "Health</a>")
		time.Sleep(time.Minute)
		if calls != 0 {
			t.Errorf("got %d examinations while no browser was open, want none", calls)
		}
		st := s.follow("view=", "")
		defer func() { st.close() }()
		st.until(5*time.Second, `title="eviction, replicas">Health<span class="badge danger">2<span class="hidden"> problems</span></span></a>`)
		s.shows("/lock?name=x", `<span class="badge danger">2<`)
		list = list[:1]
		st.until(5*time.Minute+5*time.Second, `Health<span class="badge warning">1<span class="hidden"> problem</span></span></a>`)
		list = nil
		st.close()
		st = s.follow("view=", "") // a stream ends after ten minutes
		st.until(5*time.Minute+5*time.Second, `<span id="health-link"><a href="health">Health</a></span>`)
		if calls != 3 {
			t.Errorf("got %d examinations in ten minutes, want 3", calls)
		}
	})
}

func TestAuthorize(t *testing.T) {
	options := &dash.Options{Authorize: func(*http.Request) dash.Role { return dash.None }}
	inBubble(t, options, func(t *testing.T, s *site) {
		s.lock("secret")
		for _, path := range []string{"/", "/lock?name=secret", "/events?view=", "/frame?view=", "/static/dash.js", "/unlock?name=secret"} {
			if a := s.get(path); a.status != http.StatusForbidden || strings.Contains(a.body, "secret") {
				t.Errorf("%s: got %d: %s", path, a.status, a.body)
			}
		}
	})
}

func TestMethods(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			if got := s.send(s.request(method, "/", url.Values{})).status; got != http.StatusMethodNotAllowed {
				t.Errorf("%s: got status %d, want 405", method, got)
			}
		}
		if a := s.send(s.request(http.MethodHead, "/", nil)); a.status != http.StatusOK || a.body != "" {
			t.Errorf("HEAD: got %d with %d bytes", a.status, len(a.body))
		}
	})
}

func TestTooManyStreams(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		var streams []*stream
		for range 256 {
			streams = append(streams, s.follow("view=", ""))
		}
		s.wantStatus(http.StatusServiceUnavailable, "/events?view=")
		s.wantStatus(http.StatusOK, "/")
		for _, st := range streams {
			st.close()
		}
	})
}

// A name that no page shows disappears after the next scan.
func TestForgetsWhatIsFree(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 40 {
			s.lock(fmt.Sprintf("lock%03d", i))
		}
		st := s.follow("view=", "")
		defer st.close()
		st.until(4*time.Second, "<b>40</b> names")
		s.store.Drop("lock039")
		st.until(5*time.Second, "<b>39</b> names")
	})
}

// A scan that is never complete does not keep names that are free.
func TestForgetsWhatIsFreeWhileWalksBreakOff(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *site) {
		for i := range 60 {
			s.lock(fmt.Sprintf("lock%03d", i))
		}
		st := s.follow("view=&q=lock000", "")
		defer st.close()
		time.Sleep(3 * time.Second)
		s.store.breakOff(errDown)
		for i := 30; i < 60; i++ {
			s.store.Drop(fmt.Sprintf("lock%03d", i))
		}
		time.Sleep(20 * time.Second)
		s.shows("/", "<b>30</b> names")
	})
}

// Several tabs, of production and of a test, can be told apart: each page names its store.
func TestEveryPageNamesItsStore(t *testing.T) {
	options, _ := operators(dash.Operator)
	for name, want := range map[string]string{"": "memory", "redis://<prod>:6379/2": "redis://&lt;prod&gt;:6379/2"} {
		options.Store = name
		inBubble(t, options, func(t *testing.T, s *site) {
			s.lock("job")
			for _, path := range []string{"/", "/lock?name=job", "/unlock?name=job", "/holders", "/event-log", "/health", "/nothing"} {
				body := s.get(path).body
				if title, _, _ := strings.Cut(body, "</title>"); !strings.HasSuffix(title, " · "+want+" · Holdfast") {
					t.Errorf("%s: got %s, want %s in the title", path, title, want)
				}
				if !strings.Contains(body, "<bdi>"+want+"</bdi>") {
					t.Errorf("%s does not name %s: %s", path, want, body)
				}
			}
		})
	}
}
