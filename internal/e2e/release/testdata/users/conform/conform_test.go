// Package conform runs the conformance suite over adapters of one version with the root
// module of another.
package conform

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/users/store"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for url := range strings.FieldsSeq(os.Getenv("STORES")) {
		scheme, _, _ := strings.Cut(url, "://")
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			suite := drivertest.Suite{TTL: time.Second, Open: func(t *testing.T) driver.Backend { return open(t, url) }}
			if b := open(t, url); b.Info().SessionTTL == 0 { // then all subtests share it
				suite.Open = func(*testing.T) driver.Backend { return b }
			}
			suite.Run(t)
		})
	}
}

func open(t *testing.T, url string) driver.Backend {
	b, shut, err := store.Open(url, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d, ok := b.(driver.Drainer); ok { // it listens for a while after the last waiter
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := d.Drain(ctx); err != nil {
				t.Error(err)
			}
		}
		shut()
	})
	return b
}
