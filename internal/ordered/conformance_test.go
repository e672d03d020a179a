package ordered_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// TestConformance runs the specification on the fake clock, with and without Engine.ReadOnce. Each subtest has a store of
// its own, which its clients share.
func TestConformance(t *testing.T) {
	for name, once := range map[string]bool{"reads again": false, "reads once": true} {
		t.Run(name, func(t *testing.T) {
			var stores sync.Map
			drivertest.Suite{
				Open: func(t *testing.T) driver.Backend {
					m, _ := stores.LoadOrStore(t.Name(), newMemory(2*time.Second))
					b := newBackend(m.(*memory))
					b.ReadOnce = once
					return b
				},
				Synctest: true,
			}.Run(t)
		})
	}
}
