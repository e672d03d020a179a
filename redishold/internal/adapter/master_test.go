package adapter

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A call to a master that is replaced while it does not answer ends soon, with an
// error that leaves open whether it was run; one to another node goes on.
func TestCallEndsWithItsMaster(t *testing.T) {
	for _, c := range []struct {
		name string
		keys []string
	}{
		{"one call", []string{"a1"}},
		{"a batch", []string{"a1", "a2", "b1"}},
	} {
		for _, replaced := range []string{"a:1", "b:1"} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeCluster{hang: "a:1", changed: make(chan struct{})}
				began := time.Now()
				go func() {
					time.Sleep(time.Second)
					f.elect(replaced, "c:1")
				}()
				results := newConnTo(f).Do(t.Context(), callsFor(0, c.keys...)...)
				took := time.Since(began)
				switch {
				case replaced == "a:1" && (took != time.Second+redirectGrace || !errors.Is(results[0].Err, errDeposed) || errors.Is(results[0].Err, driver.ErrNotExecuted)):
					t.Errorf("%s: got error %v after %v, want %v after %v", c.name, results[0].Err, took, errDeposed, time.Second+redirectGrace)
				case replaced != "a:1" && (took < time.Minute || results[0].Err != nil):
					t.Errorf("%s: another was replaced: got error %v after %v, want the answer, after a minute or more", c.name, results[0].Err, took)
				case len(c.keys) > 2 && results[2].Err != nil:
					t.Errorf("%s: got error %v from the node that answers", c.name, results[2].Err)
				}
				time.Sleep(10 * time.Minute) // for what still hangs
			})
		}
	}
}

// A slot that moves without a fault costs no answer: the redirect takes a moment.
func TestCallThatIsRedirectedIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{hang: "a:1", silence: redirectGrace / 2, changed: make(chan struct{})}
		go func() {
			time.Sleep(redirectGrace / 4)
			f.elect("a:1", "d:1")
		}()
		if r := newConnTo(f).Do(t.Context(), callsFor(0, "a1")...)[0]; r.Err != nil {
			t.Errorf("got error %v from a node that answers", r.Err)
		}
	})
}

// A call whose node is unknown is not given up.
func TestCallOfUnknownMasterGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeCluster{hang: "", changed: make(chan struct{})}
		f.elect("a:1", "b:1")
		if r := newConnTo(f).Do(t.Context(), callsFor(0, "?1")...)[0]; r.Err != nil {
			t.Errorf("got error %v", r.Err)
		}
	})
}
