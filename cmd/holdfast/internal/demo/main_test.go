package demo

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// workerVariable makes the test binary a process of the demo.
const workerVariable = "HOLDFAST_TEST_DEMO_WORKER"

// TestMain makes the test binary serve as the demo's processes too.
func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := Work(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A client that lost its server wants to look for a cluster for up to a second;
	// rueidis offers no way to wait for that.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
