package pgtest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
)

// workerVar names the job of a worker process, and databaseVar its database. Tests that
// need several processes start the test binary again with them.
const (
	workerVar   = "HOLDFAST_E2E_WORKER"
	databaseVar = "HOLDFAST_E2E_DATABASE"
)

func TestMain(m *testing.M) {
	manytest.Serve(openLoad)
	if job := os.Getenv(workerVar); job != "" {
		if err := work(job, os.Getenv(databaseVar)); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
