package versioned_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/versioned"
)

// stores returns an Engine over each sort of Store.
func stores() map[string]func() *versioned.Engine {
	over := func(s versioned.Store) *versioned.Engine {
		_, noClock := s.(*memory)
		return versioned.New(s, versioned.Limits{Name: "documents", Calls: 2, NoClock: noClock})
	}
	return map[string]func() *versioned.Engine{
		"polled":  func() *versioned.Engine { return over(newMemory(false)) },
		"watched": func() *versioned.Engine { return over(watched{newMemory(true)}) },
		"batched": func() *versioned.Engine { return over(batched{newMemory(true)}) },
	}
}

// drained returns e, whose goroutines have ended at the end of the test.
func drained(t *testing.T, e *versioned.Engine) *versioned.Engine {
	t.Cleanup(func() {
		if err := e.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestConformance(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			drivertest.Suite{Open: func(t *testing.T) driver.Backend { return drained(t, open()) }, Synctest: true}.Run(t)
		})
	}
}

func TestAdmin(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			admintest.Suite{Open: func(t *testing.T) admintest.Store { return drained(t, open()) }, Synctest: true}.Run(t)
		})
	}
}
