package etcdholdtest

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/silenttest"
)

// TestSilentConnections has the connection of a client forgotten that has the defaults of
// its library.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	silenttest.Store{Addr: strings.TrimPrefix(server.Addr(), "http://"), Open: func(t *testing.T, addr string, ttl time.Duration) driver.Backend {
		client, err := dialQuietly("http://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return etcdhold.New(client, &etcdhold.Options{TTL: ttl})
	}}.Run(t)
}
