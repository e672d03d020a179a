// Package dashtest shows the dashboard to a real browser, headless Chromium, and
// looks at what a person would: rows that appear and change, the keyboard, phones,
// dark mode, a browser without JavaScript, a Redis that dies and comes back.
package dashtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

// browser is the one that all tests share; each has a tab of its own.
type browser struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

var shared browser

// tests are the tests of this package, after which the browser ends.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if shared.cancel != nil {
		shared.cancel()
	}
	return code
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(tests{m}, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func (b *browser) start() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		b.err = fmt.Errorf("no chromium on PATH; on Debian: apt-get install chromium")
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx = ctx
	b.cancel = func() {
		cancel() // waits until the browser has ended
		stop()
	}
	b.err = chromedp.Do(ctx)
}

// screen is what the browser runs on.
type screen struct {
	width, height int64
	dark, noJS    bool
}

func desktop() screen { return screen{width: 1280, height: 900} }
func phone() screen   { return screen{width: 390, height: 844} }

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the page's console complained about
}

// open opens a tab. At the end of the test its console must have been silent, but
// for what harmless says.
func open(t *testing.T, s screen, harmless ...string) *tab {
	t.Helper()
	shared.once.Do(shared.start)
	switch {
	case shared.err != nil && os.Getenv("CI") == "":
		t.Skip(shared.err)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	whole, cancel := chromedp.NewContext(shared.ctx)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: whole}
	p.do(chromedp.Navigate("about:blank")) // makes the tab; a limit would be the browser's
	limited, done := context.WithTimeout(whole, 90*time.Second)
	t.Cleanup(done)
	p.ctx = limited
	if err := chromedp.Listen(limited, p.heed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.quiet(harmless) })
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.width < 600,
	})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.noJS})
	return p
}

// heed notes what goes wrong in the page, what its policy forbids among it.
func (p *tab) heed(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		text = e.Entry.Text
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

func (p *tab) quiet(harmless []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		fine := false
		for _, h := range harmless {
			fine = fine || strings.Contains(problem, h)
		}
		if !fine {
			p.Errorf("the page complained: %s", problem)
		}
	}
}

func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.Helper()
	if _, err := chromedp.Call(p.ctx, command, params); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

// visit opens an address.
func (p *tab) visit(address string) {
	p.Helper()
	p.do(chromedp.Navigate(address))
}

// eval returns what an expression is worth in the page.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("browser: %s: %v", expression, err)
	}
	return value
}

// text returns what a person reads in the page, or in an element of it.
func (p *tab) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("(document.querySelector(%q) || {innerText: ''}).innerText", selector))
}

// until waits until a condition of the page holds, and returns how long that took.
// The page may be loaded anew meanwhile.
func (p *tab) until(limit time.Duration, what, condition string) time.Duration {
	p.Helper()
	began := time.Now()
	ticker := time.NewTicker(15 * time.Millisecond)
	defer ticker.Stop()
	for time.Since(began) < limit {
		if ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")")); err == nil && ok {
			return time.Since(began)
		}
		<-ticker.C
	}
	p.Fatalf("%s: not within %v; the page says:\n%s", what, limit, p.text("body"))
	return 0
}

// shot keeps a picture of the page where HOLDFAST_SCREENSHOTS says.
func (p *tab) shot(name string) {
	p.Helper()
	dir := os.Getenv("HOLDFAST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		p.Fatal(err)
	}
}
