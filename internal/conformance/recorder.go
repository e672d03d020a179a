package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Recorder is used in place of a testing.T and keeps the errors of a check. A check may call
// only the methods that Recorder itself has.
type Recorder struct {
	testing.TB
	mu         sync.Mutex
	Complaints []string
}

// Helper does nothing.
func (r *Recorder) Helper() {}

// Errorf keeps the error.
func (r *Recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Complaints = append(r.Complaints, fmt.Sprintf(format, args...))
}

// Fatalf keeps the error and ends the goroutine.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// String returns all complaints.
func (r *Recorder) String() string { return strings.Join(r.Complaints, "\n\t") }

// Watch runs a check in a goroutine, because Fatalf may end it, and waits for its end.
func (r *Recorder) Watch(check func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		check()
	}()
	<-done
}
