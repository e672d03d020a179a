package drivertest

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/conformance"
)

// judge runs the named check on the stores of open, in a bubble, and returns its
// complaints. The bubble also ensures that the check leaves no goroutine.
func judge(t *testing.T, name string, open func() driver.Backend) *conformance.Recorder {
	t.Helper()
	var rec conformance.Recorder
	synctest.Test(t, func(*testing.T) { rec.Watch(func() { Suite{}.check(checkNamed(t, name), &rec, open(), open) }) })
	return &rec
}

func checkNamed(t *testing.T, name string) check {
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Errorf("no check is named %q", name)
	return check{body: func(*probe) {}}
}
