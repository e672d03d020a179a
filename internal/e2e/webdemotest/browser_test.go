// Package webdemotest shows the web demo to a real browser, headless Chromium, and
// uses it as a person would, on a real server and on the stand-in.
package webdemotest

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/browser"
	"github.com/holdfast-go/holdfast/internal/must"
)

func TestMain(m *testing.M) {
	must.HearSignals(os.Interrupt)
	goleak.VerifyTestMain(m)
}

func desktop() browser.Screen { return browser.Screen{Width: 1280, Height: 1900} }
func phone() browser.Screen   { return browser.Screen{Width: 390, Height: 844, Dark: true} }

// open opens a tab in a browser of the test's own.
func open(t *testing.T, s browser.Screen) *browser.Tab {
	t.Helper()
	var b browser.Browser
	t.Cleanup(b.Close)
	return b.Open(t, s)
}
