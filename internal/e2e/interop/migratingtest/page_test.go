package migratingtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/pages"
)

// Each program of the pages is one that a test runs.
func TestProgramsAreThoseOfThePages(t *testing.T) {
	const (
		interop = "internal/e2e/interop/"
		java    = "/src/main/java/holdfast/peer/Migration.java"
	)
	pages.Within(t, "docs/migrating.md", "go",
		interop+"migratingtest/redsync_test.go", interop+"migratingtest/redislock_test.go", interop+"migratingtest/rueidislock_test.go",
		"internal/e2e/etcdholdtest/migrating_test.go")
	pages.Within(t, "docs/migrating-java.md", "go",
		interop+"redisson/mutextest/migrating_test.go", interop+"shedlocktest/migrating_test.go", interop+"zkpeertest/migrating_test.go")
	pages.Within(t, "docs/migrating-java.md", "java", interop+"java"+java, interop+"shedlock"+java, interop+"curator"+java)
}
