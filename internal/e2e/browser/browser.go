// Package browser lets tests look at pages in a real browser, headless Chromium, as a
// person would.
package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed audit.js
var audit string

// Browser is one that starts with the first tab. Each tab is a page of its own.
type Browser struct {
	// Lan is a host for which the browser connects to this machine. Unlike on loopback, the
	// browser then does not trust the connection, and sends no Sec-Fetch headers.
	Lan string

	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

// Close ends the browser, if it has started, and waits for that.
func (b *Browser) Close() {
	if b.cancel != nil {
		b.cancel()
	}
}

func (b *Browser) start() {
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
	if b.Lan != "" {
		options = append(options, chromedp.Flag("host-resolver-rules", "MAP "+b.Lan+" 127.0.0.1"))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx = ctx
	b.cancel = func() {
		cancel() // waits until the browser has ended
		stop()
	}
	b.err = chromedp.Do(ctx)
}

// Screen is what the browser runs on.
type Screen struct {
	Width, Height int64
	Dark          bool // the colours that the person prefers
	Forced        bool // the system chooses the colours of all pages
	Still         bool // the person prefers less motion
	NoJS          bool
}

// Tab is a page in a Browser.
type Tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the page's console complained about
}

// Open opens a tab, in which a test has 90 seconds. At the end of the test its
// console must have been silent, but for what contains an entry of harmless. Without
// a browser the test fails where CI is set, and is skipped elsewhere.
func (b *Browser) Open(t *testing.T, s Screen, harmless ...string) *Tab {
	t.Helper()
	b.once.Do(b.start)
	switch {
	case b.err != nil && os.Getenv("CI") == "":
		t.Skip(b.err)
	case b.err != nil:
		t.Fatal(b.err)
	}
	whole, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &Tab{T: t, ctx: whole}
	p.Do(chromedp.Navigate("about:blank")) // makes the tab; a limit would be the browser's
	limited, done := context.WithTimeout(whole, 90*time.Second)
	t.Cleanup(done)
	p.ctx = limited
	if err := chromedp.Listen(limited, p.watch); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.quiet(harmless) })
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}
	if s.Dark {
		features[0].Value = "dark"
	}
	if s.Forced {
		features = append(features, &emulation.MediaFeature{Name: "forced-colors", Value: "active"})
	}
	if s.Still {
		features = append(features, &emulation.MediaFeature{Name: "prefers-reduced-motion", Value: "reduce"})
	}
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.Width, Height: s.Height, DeviceScaleFactor: 1, Mobile: s.Width < 600,
	})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.NoJS})
	return p
}

// watch notes what goes wrong in the page, what its policy forbids among it.
func (p *Tab) watch(event any) {
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

func (p *Tab) quiet(harmless []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		if !isAmong(problem, harmless) {
			p.Errorf("the page complained: %s", problem)
		}
	}
}

func call[P, R any](p *Tab, command cdp.Command[P, R], params P) {
	p.Helper()
	if _, err := chromedp.Call(p.ctx, command, params); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

// Do carries out actions.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatalf("browser: %v", err)
	}
}

// Visit opens an address.
func (p *Tab) Visit(address string) {
	p.Helper()
	p.Do(chromedp.Navigate(address))
}

// Before runs a script in each page that the tab opens from now on, before its own.
func (p *Tab) Before(script string) {
	p.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// Eval returns what an expression is worth in the page.
func Eval[T any](p *Tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("browser: %s: %v", expression, err)
	}
	return value
}

// Text returns what a person reads in the page, or in an element of it.
func (p *Tab) Text(selector string) string {
	p.Helper()
	return Eval[string](p, fmt.Sprintf("(document.querySelector(%q) || {innerText: ''}).innerText", selector))
}

// Until waits until a condition of the page holds, and returns how long that took.
// The page may be loaded again meanwhile.
func (p *Tab) Until(limit time.Duration, what, condition string) time.Duration {
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
	p.Shot("failed")
	p.Fatalf("%s: not within %v; the page says:\n%s", what, limit, p.Text("body"))
	return 0
}

// Shot keeps a picture of the page where HOLDFAST_SCREENSHOTS says.
func (p *Tab) Shot(name string) {
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

// Audit returns what would keep people from using the page: controls without a
// name, headings out of order, tables without heads, text that cannot be read on
// its ground.
func (p *Tab) Audit() []string {
	p.Helper()
	return Eval[[]string](p, audit)
}

// Forgive takes back what the console has complained about so far, where it contains
// an entry of harmless.
func (p *Tab) Forgive(harmless ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = slices.DeleteFunc(p.problems, func(problem string) bool { return isAmong(problem, harmless) })
}

func isAmong(problem string, harmless []string) bool {
	return slices.ContainsFunc(harmless, func(word string) bool { return strings.Contains(problem, word) })
}
