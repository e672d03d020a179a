package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// Recorder takes the place of a testing.T and keeps what a check complained of.
type Recorder struct {
	mu         sync.Mutex
	Complaints []string
}

// Helper is that of a testing.T.
func (r *Recorder) Helper() {}

// Errorf is that of a testing.T.
func (r *Recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Complaints = append(r.Complaints, fmt.Sprintf(format, args...))
}

// Fatalf is that of a testing.T.
func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// String returns all complaints.
func (r *Recorder) String() string { return strings.Join(r.Complaints, "\n\t") }

// Watch makes a check, which Fatalf may end.
func (r *Recorder) Watch(check func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		check()
	}()
	<-done
}
