package supervise

import (
	"testing"

	"go.uber.org/goleak"
)

// A client that lost its server wants to look for a cluster for up to a second; rueidis
// offers no way to wait for that.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
