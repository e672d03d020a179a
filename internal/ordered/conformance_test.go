package ordered_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// TestConformance runs the specification on the fake clock, over stores that report removed
// entries as certain, and over others. Each subtest has a store of its own, which its
// clients share.
func TestConformance(t *testing.T) {
	for name, sure := range map[string]bool{"not sure": false, "sure": true} {
		t.Run(name, func(t *testing.T) {
			var stores sync.Map
			drivertest.Suite{
				Open: func(t *testing.T) driver.Backend {
					m := newMemory(2 * time.Second)
					m.sure = sure
					shared, _ := stores.LoadOrStore(t.Name(), m)
					return newBackend(shared.(*memory))
				},
				Synctest: true,
			}.Run(t)
		})
	}
}
