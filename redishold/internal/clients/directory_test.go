package clients

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/redishold/internal/layout"
	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

func TestTheDirectoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Access{
			Layout: layout.New("", "", false),
			Log:    slog.New(slog.DiscardHandler),
			Script: func(name string) *wire.Script { return wire.NewScript(name, "") },
			Do: func(_ context.Context, calls ...wire.Call) []wire.Result {
				results := make([]wire.Result, len(calls))
				for i := range results {
					results[i].Value = []any{"", "1763768514123"}
				}
				return results
			},
		})
		for i := range 3 * maxClients {
			c.DescribeOwner(t.Context(), strconv.Itoa(i)+":1")
		}
		if got := len(c.directory.known); got == 0 || got > maxClients {
			t.Fatalf("remembers %d clients, want at most %d", got, maxClients)
		}
	})
}
