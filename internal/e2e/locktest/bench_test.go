package locktest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/redishold"
)

// BenchmarkPair measures Lock and Unlock of a free name: each goroutine its own.
// scripts/op is how often the server ran a script for it.
func BenchmarkPair(b *testing.B) {
	for _, adapter := range dial.Adapters() {
		for _, goroutines := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/goroutines-per-cpu=%d", adapter, goroutines), func(b *testing.B) {
				server := redistest.Start(b)
				conn, shut, err := dial.Server(adapter, server.Addr(), "", "")
				if err != nil {
					b.Fatal(err)
				}
				defer shut()
				l := holdfast.New(redishold.New(conn, nil), nil)
				must.Unlock(b, must.Lock(b, l, "warm"))
				before := server.CommandStats()["evalsha"]
				var number atomic.Int64
				b.SetParallelism(goroutines)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					name := fmt.Sprintf("bench:%d", number.Add(1))
					for pb.Next() {
						lock, err := l.Lock(b.Context(), name)
						if err != nil {
							b.Error(err)
							return
						}
						if err := lock.Unlock(); err != nil {
							b.Error(err)
						}
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(server.CommandStats()["evalsha"]-before)/float64(b.N), "scripts/op")
			})
		}
	}
}
