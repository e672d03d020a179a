package matrix

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/worker"
)

func TestMain(m *testing.M) {
	worker.Main(map[string]func(*worker.Worker) error{holdJob: inChild(holdInChild), crowdJob: inChild(crowdInChild)})
	// rueidis leaves the connections to nodes that are gone open for five seconds.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
