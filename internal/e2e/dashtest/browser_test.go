// Package dashtest shows the dashboard to a real browser, headless Chromium, and
// looks at what a person would: rows that appear and change, the keyboard, phones,
// dark mode, a browser without JavaScript, a Redis that dies and comes back.
package dashtest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/browser"
)

// shared is the browser of all tests; each has a tab of its own.
var shared browser.Browser

// tests are the tests of this package, after which the browser ends.
type tests struct{ *testing.M }

func (m tests) Run() int {
	defer shared.Close()
	return m.M.Run()
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(tests{m}, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

func desktop() browser.Screen { return browser.Screen{Width: 1280, Height: 900} }
func phone() browser.Screen   { return browser.Screen{Width: 360, Height: 800} }

// countUpdates counts what the server sends to a page.
const countUpdates = `window.updates = 0;
window.EventSource = class extends EventSource {
	constructor(address) {
		super(address);
		this.addEventListener("message", () => { window.updates++; });
	}
};`

func open(t *testing.T, s browser.Screen, harmless ...string) *browser.Tab {
	t.Helper()
	p := shared.Open(t, s, harmless...)
	p.Before(countUpdates)
	return p
}

// updates returns how many updates the page has been sent, shown or not.
func updates(p *browser.Tab) int {
	p.Helper()
	return browser.Eval[int](p, "window.updates")
}

// awaitUpdates waits until the page has been sent n more updates.
func awaitUpdates(p *browser.Tab, n int) {
	p.Helper()
	p.Until(10*time.Second, strconv.Itoa(n)+" updates", fmt.Sprintf("window.updates >= %d", updates(p)+n))
}

// wantSoon changes something in the store right after an update. The next update has to
// show it; where the change took so long that its look may have begun, the one after.
func wantSoon(p *browser.Tab, what string, change func(), condition string) {
	p.Helper()
	awaitUpdates(p, 1)
	began, most := time.Now(), 1
	change()
	before := updates(p)
	if time.Since(began) > 400*time.Millisecond {
		most = 2
	}
	p.Until(10*time.Second, what, fmt.Sprintf("(%s) && (window.shownAt = window.updates, true)", condition))
	if n := browser.Eval[int](p, "window.shownAt") - before; n > most {
		p.Errorf("%s: shown by update %d after it came true, want %d at most", what, n, most)
	}
}
