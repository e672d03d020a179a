package simtest

import (
	"runtime/debug"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/sim"
	"github.com/holdfast-go/holdfast/redishold"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // there is little to keep
	goleak.VerifyTestMain(m)
}

func TestSimulation(t *testing.T) {
	scripts := &compiler{}
	for name, layout := range map[string]redishold.Layout{"redis": redishold.Redisson, "redis-plain": redishold.Plain} {
		t.Run(name, func(t *testing.T) {
			sim.Seeds(t, func(time.Duration) sim.Store { return newServer(scripts, layout) })
		})
	}
}
