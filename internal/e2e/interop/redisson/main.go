package redisson

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/e2e/dial"
)

// Main is TestMain of the packages with cases: so many run at a time, as they do
// little but wait, and no goroutine may be left. In a process that GoProcess
// started it does what that says.
func Main(m *testing.M, atATime int) {
	if plan := os.Getenv(planVar); plan != "" {
		if err := serve(plan, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "Go process:", err)
			os.Exit(1)
		}
		os.Exit(0) // what is held stays held, as after a crash
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atATime)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, dial.Sleepers()...)
}
