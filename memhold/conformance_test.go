package memhold_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memhold"
)

func open(*testing.T) driver.Backend { return memhold.New() }

// The TTL is long because in real time a machine may be busy for half of it.
func TestConformance(t *testing.T) {
	drivertest.Suite{Open: open, TTL: time.Second}.Run(t)
}

// The same on the fake clock, where every bound is exact and a goroutine that is left behind
// fails the test.
func TestConformanceSynctest(t *testing.T) {
	drivertest.Suite{Open: open, Synctest: true}.Run(t)
}

// A connection without a fault is as good as the store.
func TestConformanceConn(t *testing.T) {
	drivertest.Suite{Open: func(*testing.T) driver.Backend { return memhold.New().Connect() }, Synctest: true}.Run(t)
}

func TestAdmin(t *testing.T) {
	admintest.Suite{Open: func(*testing.T) admintest.Store { return memhold.New() }, Synctest: true}.Run(t)
}
