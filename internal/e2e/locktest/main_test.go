package locktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// workerVar names the job of a worker process. Tests that need several
// processes start the test binary again with it.
const workerVar = "HOLDFAST_E2E_WORKER"

func TestMain(m *testing.M) {
	if job := os.Getenv(workerVar); job != "" {
		if err := work(job); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// work does a worker's job.
func work(job string) error {
	switch job {
	case "apart":
		return workApart()
	case "crowd":
		return workInCrowd()
	case "shares":
		return workForShares()
	case "fair":
		return workInScenario(useFair)
	case "hold":
		return workInScenario(holdOne)
	default:
		return fmt.Errorf("unknown job %q", job)
	}
}
