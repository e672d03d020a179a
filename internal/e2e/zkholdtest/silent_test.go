package zkholdtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/zkhold"
)

// TestSilentConnections has the connection of a session forgotten. A holder without a
// connection keeps its locks for two thirds of the TTL, which must have room for two.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	silenttest.Store{Addr: server.Addr(), TTL: 12 * time.Second, Open: func(t *testing.T, addr string, ttl time.Duration) driver.Backend {
		b := zkhold.New([]string{addr}, &zkhold.Options{TTL: ttl})
		t.Cleanup(b.Close)
		return b
	}}.Run(t)
}
