package locktest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

// What the worker processes do.
const (
	apartJob = "apart"
	crowdJob = "crowd"
	fairJob  = "fair"
	holdJob  = "hold"
	shareJob = "shares"
)

func TestMain(m *testing.M) {
	worker.Main(map[string]func(*worker.Worker) error{
		apartJob: inScenario(useApart),
		crowdJob: inScenario(useInCrowd),
		fairJob:  inScenario(useFair),
		holdJob:  inScenario(holdOne),
		shareJob: workForShares,
	})
	goleak.VerifyTestMain(m)
}
