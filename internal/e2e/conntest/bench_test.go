package conntest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// BenchmarkCall compares one call after the other, by several goroutines, with
// what the client library alone needs for the same script. For figures that mean
// something the server needs a core of its own: start it there, name its address
// in HOLDFAST_BENCH_REDIS, and run the benchmark on another core.
func BenchmarkCall(b *testing.B) {
	addr := os.Getenv("HOLDFAST_BENCH_REDIS")
	if addr == "" {
		addr = redistest.Start(b).Addr()
	}
	script := redishold.NewScript("bench", `return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) and 1000 or 1001`)
	for _, r := range runners(b, addr, script) {
		for _, n := range []int{1, 8, 64, 512} {
			b.Run(fmt.Sprintf("%s/%d", r.name, n), func(b *testing.B) {
				b.ReportAllocs()
				before, beforeServer := cpuTime(b), serverCPUTime(b, addr)
				compete(b, n, r.run)
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(serverCPUTime(b, addr)-beforeServer)/float64(b.N), "server-cpu-ns/op")
			})
		}
	}
}

type runner struct {
	name string
	run  func(key string) error
}

func runners(b *testing.B, addr string, script *redishold.Script) []runner {
	library, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, PipelineMultiplex: -1, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(library.Close)
	lua := rueidis.NewLuaScript(script.Source())
	pool := redis.NewClient(&redis.Options{Addr: addr})
	b.Cleanup(func() { _ = pool.Close() })
	goLua := redis.NewScript(script.Source())
	ctx := context.Background()
	all := []runner{
		{"rueidis/raw", func(key string) error {
			return lua.Exec(ctx, library, []string{key}, []string{"owner", "1000"}).Error()
		}},
		{"goredis/raw", func(key string) error {
			return goLua.Run(ctx, pool, []string{key}, "owner", "1000").Err()
		}},
	}
	for _, s := range []subject{{"rueidis/Open", openRueidis}, {"rueidis/New", newRueidis}, {"goredis/defaults", openGoRedis}} {
		conn, done, err := s.open(login{addr: addr})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(done)
		all = append(all, runner{s.name, func(key string) error {
			limit := deadline.New(ctx, time.Now().Add(time.Minute))
			return conn.(redishold.Single).DoOne(limit, &redishold.Call{
				Script: script, Keys: []string{key}, Args: []string{"owner", "1000"},
			}).Err
		}})
	}
	return all
}

// cpuTime is what this process has used so far. It says more than the clock where
// others use the machine too.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// serverCPUTime is what the server has used so far.
func serverCPUTime(b *testing.B, addr string) (used time.Duration) {
	for line := range strings.Lines(redistest.At(addr, "").Bind(b).String("INFO", "cpu")) {
		name, seconds, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			d, err := time.ParseDuration(seconds + "s")
			if err != nil {
				b.Fatal(err)
			}
			used += d
		}
	}
	return used
}

// compete runs b.N calls in n goroutines.
func compete(b *testing.B, n int, run func(key string) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			key := fmt.Sprintf("bench:%d", i)
			for left.Add(-1) >= 0 {
				if err := run(key); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
}
