package conntest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
	"github.com/holdfast-go/holdfast/redishold"
)

// TestSilentConnections has every connection of a client forgotten, of each adapter with
// the defaults of its library.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			silenttest.Store{Addr: server.Addr(), Open: func(t *testing.T, addr string, _ time.Duration) driver.Backend {
				conn, shut, err := s.open(login{addr: addr})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(shut)
				return redishold.New(conn, nil)
			}}.Run(t)
		})
	}
}
