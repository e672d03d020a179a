package dashtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/admin/observe"
	"github.com/holdfast-go/holdfast/dash"
	"github.com/holdfast-go/holdfast/internal/e2e/browser"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// row is an expression: the row of a lock, if it is shown.
func row(name string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#rows tr')].find((r) => r.querySelector('th bdi').textContent === %q)", name)
}

func screens() map[string]browser.Screen {
	return map[string]browser.Screen{
		"Desktop": desktop(), "Phone": phone(),
		"DesktopDark": {Width: 1280, Height: 900, Dark: true}, "PhoneDark": {Width: 360, Height: 800, Dark: true},
	}
}

func TestRowsAppearAndChange(t *testing.T) {
	for name, size := range map[string]browser.Screen{"Desktop": desktop(), "Phone": phone()} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			p := open(t, size)
			p.Visit(s.url(""))
			p.Until(3*time.Second, "an empty store", "document.querySelector('#empty').innerText.includes('No lock is held')")
			lock := s.lock("deploy/prod")
			p.Until(3*time.Second, "the row of a new lock", row("deploy/prod"))
			if text := browser.Eval[string](p, row("deploy/prod")+".innerText"); !strings.Contains(text, fmt.Sprintf(":%d", os.Getpid())) || !strings.Contains(text, "dashtest") {
				t.Errorf("the row says %q, want who holds it", text)
			}
			left := browser.Eval[float64](p, row("deploy/prod")+".querySelector('progress').value")
			p.Until(2*time.Second, "the lease draining", fmt.Sprintf("%s.querySelector('progress').value < %f - 500", row("deploy/prod"), left))
			p.Until(12*time.Second, "a renewal", fmt.Sprintf(`(() => {
				const now = %s.querySelector('progress').value;
				window.least = Math.min(window.least ?? now, now);
				return now > window.least + 2000;
			})()`, row("deploy/prod")))
			for range 5 {
				wantSoon(p, "the row gone", func() {
					if err := lock.Unlock(); err != nil {
						t.Fatal(err)
					}
				}, "!"+row("deploy/prod"))
				lock = s.lock("deploy/prod")
				p.Until(3*time.Second, "the row again", row("deploy/prod"))
			}
			s.promised("five updates came", 5*time.Second+asking, func() time.Duration {
				began := time.Now()
				awaitUpdates(p, 5)
				return time.Since(began)
			})
		})
	}
}

func TestLockPage(t *testing.T) {
	s := start(t, nil)
	s.furnish()
	p := open(t, desktop())
	p.Visit(s.url(""))
	p.Until(3*time.Second, "rows", row("billing"))
	click(p, "#rows a[href='lock?name=billing']")
	p.Until(3*time.Second, "the page of the lock", "document.querySelector('h1').innerText === 'billing'")
	p.Until(3*time.Second, "keys", "document.querySelector('#keys table')")
	text := p.Text("main")
	for _, want := range []string{"Held by", "Lease left", "Waiting", "Timeline", "redisson_lock_queue:{billing}", "hash", "dashtest"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page:\n%s", want, text)
		}
	}
	if n := browser.Eval[int](p, "document.querySelector('#state table').tBodies[0].rows.length"); n != 2 {
		t.Errorf("got %d waiters, want 2", n)
	}
	// What is unfolded stays so, although an update replaces what is around it.
	click(p, "summary")
	browser.Eval[bool](p, "document.querySelector('details.cli').old = true")
	s.redis.Do("HINCRBY", "billing", s.redis.Strings("HKEYS", "billing")[0], "1")
	p.Until(3*time.Second, "an update", "!document.querySelector('details.cli').old")
	s.redis.Do("HINCRBY", "billing", s.redis.Strings("HKEYS", "billing")[0], "-1")
	if !browser.Eval[bool](p, "document.querySelector('details.cli').open && document.querySelector('details.cli').innerText.includes('holdfast inspect -- billing')") {
		t.Error("the command line was folded away")
	}
}

func TestJavaLocksAreShownAsSuch(t *testing.T) {
	s := start(t, nil)
	s.javaLock("orders:7", java+":42", 30*time.Second)
	p := open(t, desktop())
	p.Visit(s.url(""))
	p.Until(3*time.Second, "the row", row("orders:7"))
	if text := browser.Eval[string](p, row("orders:7")+".querySelector('.holder').innerText"); text != "Redisson client 8743c9c0… thread 42" {
		t.Errorf("got holder %q", text)
	}
	p.Visit(s.url("holders"))
	p.Until(3*time.Second, "the process", "document.querySelector('#rows').innerText.includes('"+java+"')")
}

func TestSearchAndSort(t *testing.T) {
	s := start(t, nil)
	s.furnish()
	p := open(t, desktop())
	p.Visit(s.url(""))
	p.Until(3*time.Second, "rows", row("orders:7"))
	p.Do(chromedp.Focus("#q"), chromedp.KeyEvent("REDISSON"+kb.Enter))
	p.Until(3*time.Second, "what was found", "location.search === '?q=REDISSON' && document.querySelectorAll('#rows tr').length === 3")
	p.Do(chromedp.Click("thead .lease a"))
	p.Until(3*time.Second, "sorted", "document.querySelector('th.lease').ariaSort === 'ascending'")
	names := browser.Eval[string](p, "[...document.querySelectorAll('#rows th a')].map((e) => e.innerText).join()")
	if names != "orders:7,prices,anyLock" {
		t.Errorf("got %s by lease, want orders:7,prices,anyLock", names)
	}
	if browser.Eval[string](p, "document.querySelector('#q').value") != "REDISSON" {
		t.Error("the search is gone after sorting")
	}
}

// Everything can be reached with the keyboard, the focus can be seen, and it stays
// where it is when its row changes.
func TestKeyboardOnly(t *testing.T) {
	s := start(t, nil)
	s.lock("deploy/prod")
	p := open(t, desktop())
	p.Visit(s.url(""))
	p.Until(3*time.Second, "the row", row("deploy/prod"))
	p.Do(chromedp.KeyEvent(kb.Tab))
	if text := browser.Eval[string](p, "document.activeElement.innerText"); text != "Skip to the content" {
		t.Errorf("the first stop is %q, want the link to the content", text)
	}
	var stops []string
	for range 30 {
		p.Do(chromedp.KeyEvent(kb.Tab))
		stops = append(stops, browser.Eval[string](p, "document.activeElement.innerText || document.activeElement.id"))
		if browser.Eval[string](p, "getComputedStyle(document.activeElement).outlineStyle") == "none" {
			t.Errorf("the focus on %q cannot be seen", stops[len(stops)-1])
		}
		if stops[len(stops)-1] == "deploy/prod" {
			break
		}
	}
	if got := strings.Join(stops, ", "); !strings.HasSuffix(got, "deploy/prod") || !strings.Contains(got, "oldest hold, q, Search") {
		t.Fatalf("got stops %s", got)
	}
	s.redis.Do("HINCRBY", "deploy/prod", s.redis.Strings("HKEYS", "deploy/prod")[0], "1")
	p.Until(3*time.Second, "the count", row("deploy/prod")+".innerText.includes('2 times')")
	if text := browser.Eval[string](p, "document.activeElement.innerText"); text != "deploy/prod" {
		t.Errorf("the focus went to %q when the row changed", text)
	}
	s.redis.Do("HINCRBY", "deploy/prod", s.redis.Strings("HKEYS", "deploy/prod")[0], "-1")
	p.Do(chromedp.KeyEvent(kb.Enter))
	p.Until(3*time.Second, "the page of the lock", "document.querySelector('h1').innerText === 'deploy/prod'")
}

func TestPause(t *testing.T) {
	s := start(t, nil)
	s.lock("first")
	p := open(t, desktop())
	p.Visit(s.url(""))
	p.Until(3*time.Second, "the row", row("first"))
	p.Do(chromedp.Click("#pause"))
	frozen := browser.Eval[string](p, row("first")+".querySelector('.left').innerText")
	s.lock("second")
	awaitUpdates(p, 4)
	if browser.Eval[bool](p, "Boolean("+row("second")+")") || browser.Eval[string](p, row("first")+".querySelector('.left').innerText") != frozen {
		t.Error("the page changed while paused")
	}
	p.Do(chromedp.Click("#pause"))
	p.Until(3*time.Second, "what came meanwhile", row("second"))
}

func TestWithoutJavaScript(t *testing.T) {
	s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates})
	s.furnish()
	size := desktop()
	size.NoJS = true
	p := open(t, size)
	p.Visit(s.url(""))
	if text := browser.Eval[string](p, row("deploy/prod")+".innerText"); !strings.Contains(text, fmt.Sprintf(":%d", os.Getpid())) {
		t.Errorf("the row says %q", text)
	}
	if browser.Eval[float64](p, row("deploy/prod")+".querySelector('progress').value") == 0 {
		t.Error("the bar of the lease is empty")
	}
	s.lock("later")
	p.Until(8*time.Second, "the page loading itself again", row("later"))
	p.Do(chromedp.Click("#rows a[href='lock?name=deploy%2Fprod']"))
	p.Until(3*time.Second, "the page of the lock", "document.querySelector('h1').innerText === 'deploy/prod'")
	p.Do(chromedp.Click("a.danger"))
	p.Until(3*time.Second, "the form", "document.querySelector('form[method=post]')")
	p.Do(chromedp.SetValue("#confirm0", "deploy/prod"), chromedp.SetValue("#reason0", "no script"), chromedp.Click("form[method=post] button"))
	p.Until(3*time.Second, "the lock free", "document.querySelector('#state').innerText.includes('Free')")
}

func TestRedisDiesAndComesBack(t *testing.T) {
	for name, fault := range map[string]struct{ down, up func(*site) }{
		"Killed": {func(s *site) { s.redis.Kill() }, func(s *site) { s.redis.Restart() }},
		"Paused": {func(s *site) { s.redis.Pause() }, func(s *site) { s.redis.Resume() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			s.javaLock("orders:7", java+":42", time.Hour)
			p := open(t, desktop())
			p.Visit(s.url(""))
			p.Until(3*time.Second, "the row", row("orders:7"))
			s.promised("the failure is shown", 2*time.Second, func() time.Duration {
				s.redis.Do("DEL", "after")
				p.Until(5*time.Second, "the row", row("orders:7")+" && !"+row("after"))
				fault.down(s)
				took := p.Until(5*time.Second, "the failure", "!document.querySelector('#trouble').hidden && document.querySelector('#trouble').innerText.includes('has not answered since')")
				p.Shot("down-" + name)
				awaitUpdates(p, 2)
				fault.up(s)
				s.javaLock("orders:7", java+":42", time.Hour)
				s.javaLock("after", java+":1", time.Hour)
				p.Until(10*time.Second, "recovery", "document.querySelector('#trouble').hidden")
				p.Until(10*time.Second, "what is locked now", row("after"))
				return took
			})
		})
	}
}

func TestDashboardComesBack(t *testing.T) {
	s := start(t, nil)
	s.lock("deploy/prod")
	p := open(t, desktop(), "ERR_CONNECTION", "Failed to load", "ERR_INCOMPLETE", "ERR_EMPTY")
	p.Visit(s.url(""))
	p.Until(3*time.Second, "the row", row("deploy/prod"))
	s.dash.Load().Close() // as at the end of the program
	p.Until(6*time.Second, "that nobody answers", "!document.querySelector('#cut').hidden")
	s.serve(dash.Handler(admin.New(s.backend()), nil))
	s.lock("later")
	p.Until(12*time.Second, "recovery", "document.querySelector('#cut').hidden")
	p.Until(5*time.Second, "what is locked now", row("later"))
}

func TestForceUnlock(t *testing.T) {
	s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates})
	lock := s.lock("deploy/prod")
	p := open(t, phone(), "409", "422")
	p.Visit(s.url("lock?name=deploy%2Fprod"))
	p.Do(chromedp.Click("a.danger"))
	p.Until(3*time.Second, "the form", "document.querySelector('#confirm0')")
	p.Shot("unlock-phone")
	try := func(typed string) {
		p.Do(chromedp.SetValue("#confirm0", typed), chromedp.SetValue("#reason0", "host is gone"), chromedp.Click("button.danger"))
	}
	try("deploy/pro")
	p.Until(3*time.Second, "the refusal", "document.querySelector('.trouble[role=alert]')")
	if err := lock.Err(); err != nil {
		t.Fatalf("the lock was lost with a wrong name: %v", err)
	}

	holder := s.redis.Strings("HKEYS", "deploy/prod")[0]
	s.redis.Do("HINCRBY", "deploy/prod", holder, "1") // it was taken once more
	try("deploy/prod")
	p.Until(3*time.Second, "the conflict", "document.body.innerText.includes('has changed since the page was loaded')")
	s.redis.Do("HINCRBY", "deploy/prod", holder, "-1")

	p.Visit(s.url("unlock?name=deploy%2Fprod"))
	try("deploy/prod")
	p.Until(3*time.Second, "the lock free", "document.querySelector('#state') && document.querySelector('#state').innerText.includes('Free')")
	p.Until(observe.Delay+5*time.Second, "the timeline", "document.querySelector('#timeline').innerText.includes('host is gone')")
	deadline := time.After(15 * time.Second)
	select {
	case <-lock.Context(t.Context()).Done():
	case <-deadline:
	}
	if err := lock.Err(); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the holder was told %v, want that it is lost", err)
	}
}

func TestScriptInNames(t *testing.T) {
	s := start(t, nil)
	const script, image, drawing = "<script>window.hit=1</script>", `"><img src=x onerror="window.hit=1">`, "<svg onload=window.hit=1>"
	all := []string{script, image, drawing}
	p := open(t, desktop())
	p.Visit(s.url("event-log"))
	for n := int64(0); !strings.Contains(p.Text("#rows"), "probe:") && n < 30; n++ { // what is locked after that is in the event log
		s.javaLock("probe:"+itoa(n), java+":0", time.Hour)
		awaitUpdates(p, 1)
	}
	for i, name := range all {
		s.javaLock(name, java+":"+itoa(int64(i)), time.Hour)
	}
	for path, names := range map[string][]string{
		"": all, "?q=" + url.QueryEscape(drawing): {drawing}, "holders": all, "event-log": all,
		"lock?name=" + url.QueryEscape(script): {script}, "lock?name=" + url.QueryEscape(image): {image},
	} {
		p.Visit(s.url(path))
		for _, name := range names {
			p.Until(10*time.Second, fmt.Sprintf("%s as text on %q", name, path), fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", name))
		}
		awaitUpdates(p, 2)
		if browser.Eval[bool](p, "'hit' in window || document.querySelector('main img, main script, main [onload]') !== null") {
			t.Errorf("%s: something in a name came to life", path)
		}
	}
}

// Every page, on every screen, can be used by everybody.
func TestAccessible(t *testing.T) {
	options := &dash.Options{AllowUnlock: true, Authorize: everybodyOperates, Findings: findings}
	s := start(t, options)
	s.furnish()
	for name, size := range screens() {
		t.Run(name, func(t *testing.T) {
			p := open(t, size)
			for title, path := range map[string]string{
				"locks": "", "search": "?q=none", "lock": "lock?name=billing", "java": "lock?name=orders%3A7", "free": "lock?name=free",
				"holders": "holders", "event-log": "event-log", "health": "health", "unlock": "unlock?name=pool",
			} {
				p.Visit(s.url(path))
				p.Until(5*time.Second, "the first update", "window.updates > 0 || !document.body.dataset.feed")
				for _, problem := range p.Audit() {
					t.Errorf("%s: %s", title, problem)
				}
				p.Shot(strings.ToLower(name) + "-" + title)
			}
		})
	}
}

// A whole page of rows fits on the screen of a laptop.
func TestRowsOnALaptop(t *testing.T) {
	s := start(t, nil)
	web := s.program("checkout@web-1:310 (sale) team=shop")
	for i := range 25 {
		s.hold(web.Lock(s.Context(), fmt.Sprintf("stock:%d", 1000+i)))
	}
	s.queue(s.program("checkout@web-2:77").Mutex("stock:1024"))
	p := open(t, browser.Screen{Width: 1280, Height: 800})
	p.Visit(s.url(""))
	p.Until(20*time.Second, "all rows, those with waiters first", "document.querySelectorAll('#rows tr').length === 25 && document.querySelector('#rows tr a').innerText === 'stock:1024'")
	if bottom := browser.Eval[float64](p, "document.querySelector('#rows tr:last-child').getBoundingClientRect().bottom"); bottom > 800 {
		t.Errorf("the last of 25 rows ends at %v pixels, want 800 at most", bottom)
	}
	p.Shot("laptop")
}

// On a phone nothing of a page is cut off: what a table has on a desktop is in cards.
func TestNothingIsCutOff(t *testing.T) {
	s := start(t, &dash.Options{AllowUnlock: true, Authorize: everybodyOperates, Store: "rediss://app@orders-eu-west-1.cache.example.com:6380/2"})
	s.furnish()
	const long = "orders/2026/eu-west-1/customer-000000000042/nightly-report"
	s.lock(long)
	widths, pages := []int64{360, 1280}, map[string]string{"list": "", "lock": "lock?name=billing", "read": "lock?name=prices", "unlock": "unlock?name=billing", "holders": "holders"}
	if os.Getenv("HOLDFAST_SCREENSHOTS") != "" { // for people who look at them
		widths, pages["log"], pages["health"] = append(widths, 390), "event-log", "health"
	}
	for _, width := range widths {
		t.Run(itoa(width), func(t *testing.T) {
			t.Parallel()
			p := open(t, browser.Screen{Width: width, Height: 844})
			for name, path := range pages {
				p.Visit(s.url(path))
				if name == "lock" {
					p.Until(3*time.Second, "keys and waiters", "document.querySelector('#keys table') && document.querySelector('#state table')")
				}
				if os.Getenv("HOLDFAST_SCREENSHOTS") != "" {
					p.Shot(fmt.Sprintf("page-%s-%d", name, width))
				}
				for _, selector := range []string{"html", ".wide", ".wide tbody :is(th, td)"} {
					cut := browser.Eval[string](p, fmt.Sprintf("[...document.querySelectorAll(%q)].filter((e) => e.offsetParent && e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText).join('; ')", selector))
					if cut != "" {
						t.Errorf("%s: %s is wider than the screen: %s", path, selector, cut)
					}
				}
				if !strings.Contains(p.Text("header"), "orders-eu-west-1.cache.example.com:6380/2") {
					t.Errorf("%s: the header does not name the store: %s", path, p.Text("header"))
				}
			}
			p.Visit(s.url(""))
			p.Until(3*time.Second, "the name", row(long))
			if room := browser.Eval[float64](p, row(long)+".querySelector('th').clientWidth"); room < 200 {
				t.Errorf("a name has %v pixels, want 200", room)
			}
		})
	}
}
