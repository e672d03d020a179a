// Package webdemotest shows the web demo to a real browser, headless Chromium, and
// plays it as a person would, on a real server and on the stand-in.
package webdemotest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// screen is what the browser runs on.
type screen struct {
	width, height int64
	dark, noJS    bool
}

func desktop() screen { return screen{width: 1280, height: 1900} }
func phone() screen   { return screen{width: 390, height: 844, dark: true} }

// tab is a page in a browser of its own.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // what the page's console complained about
}

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium on PATH; on Debian: apt-get install chromium")
}

// open opens a tab. At the end of the test its console must have been silent.
func open(t *testing.T, s screen) *tab {
	t.Helper()
	path, err := findBrowser()
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	whole, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel) // waits until the browser has ended
	p := &tab{T: t, ctx: whole}
	p.do(chromedp.Navigate("about:blank")) // starts the browser; a limit would be its own
	limited, done := context.WithTimeout(whole, 90*time.Second)
	t.Cleanup(done)
	p.ctx = limited
	if err := chromedp.Listen(limited, p.heed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Errorf("the page complained: %s", problem)
		}
	})
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

// eval returns what an expression is worth in the page.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("browser: %s: %v", expression, err)
	}
	return value
}

// click presses a button, once it can be.
func (p *tab) click(id string) {
	p.Helper()
	p.until(5*time.Second, id, fmt.Sprintf("document.getElementById(%q) && !document.getElementById(%[1]q).disabled", id))
	p.do(chromedp.Click("#" + id))
}

// until waits until a condition of the page holds, and returns when that was. The
// page may be loaded anew meanwhile.
func (p *tab) until(limit time.Duration, what, condition string) time.Time {
	p.Helper()
	began := time.Now()
	ticker := time.NewTicker(15 * time.Millisecond)
	defer ticker.Stop()
	for time.Since(began) < limit {
		if ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")")); err == nil && ok {
			return time.Now()
		}
		<-ticker.C
	}
	p.shot("failed")
	p.Fatalf("%s: not within %v; the page says:\n%s", what, limit, eval[string](p, "document.body.innerText"))
	return time.Time{}
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
