// Package webdemotest shows the page of demo --serve to a real browser, headless Chromium,
// and uses it as a person would, on real servers and on the stand-in.
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

// screens are those that the page must be good on.
func screens() map[string]browser.Screen {
	return map[string]browser.Screen{
		"desktop":      {Width: 1280, Height: 1900},
		"desktop-dark": {Width: 1280, Height: 1900, Dark: true},
		"forced":       {Width: 1280, Height: 1900, Forced: true},
		"phone":        {Width: 360, Height: 800},
		"phone-dark":   {Width: 360, Height: 800, Dark: true},
	}
}

// open opens a tab in a browser of the test's own.
func open(t *testing.T, s browser.Screen) *browser.Tab {
	t.Helper()
	var b browser.Browser
	t.Cleanup(b.Close)
	return b.Open(t, s)
}
