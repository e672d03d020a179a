// Package dashtest shows the dashboard to a real browser, headless Chromium, and
// looks at what a person would: rows that appear and change, the keyboard, phones,
// dark mode, a browser without JavaScript, a Redis that dies and comes back.
package dashtest

import (
	"testing"

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
func phone() browser.Screen   { return browser.Screen{Width: 390, Height: 844} }

func open(t *testing.T, s browser.Screen, harmless ...string) *browser.Tab {
	t.Helper()
	return shared.Open(t, s, harmless...)
}
