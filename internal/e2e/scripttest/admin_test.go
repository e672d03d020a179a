package scripttest

import (
	"testing"

	"github.com/holdfast-go/holdfast/admin/admintest"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// Every layout in Redis is a Source, with a prefix too.
func TestAdmin(t *testing.T) {
	for name, o := range map[string]redishold.Options{
		"redisson": {}, "prefix": {KeyPrefix: "app:"},
		"plain": {Layout: redishold.Plain}, "timestamp": {Layout: redishold.Timestamp},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			b := redishold.New(connect(t, server.Addr(), "", ""), &o)
			admintest.Suite{Open: func(*testing.T) admintest.Store { return b }}.Run(t)
		})
	}
}
