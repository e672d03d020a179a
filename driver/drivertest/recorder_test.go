package drivertest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver"
)

// recorder takes the place of a testing.T and keeps what a check complained of.
type recorder struct {
	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) String() string { return strings.Join(r.complaints, "\n\t") }

// judge runs the named check on what open returns, in a bubble, and returns its
// complaints. The bubble also sees to it that the check leaves no goroutine.
func judge(t *testing.T, name string, open func() driver.Backend) *recorder {
	t.Helper()
	var rec recorder
	synctest.Test(t, func(*testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done) // also where Fatalf ends the check
			checkNamed(t, name).run(&rec, open(), Suite{})
		}()
		<-done
	})
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
