package locktest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// The code of docs/concepts.md is that of TestTimeline.
func TestConceptsOfThePage(t *testing.T) {
	pages.Within(t, "docs/concepts.md", "go", "renew_test.go")
}
