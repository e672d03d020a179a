package locktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/redishold"
)

// The crowd: processes × goroutines that all want one name.
const (
	crowdProcesses  = 4
	crowdGoroutines = 200
	crowdTotal      = 10_000
)

// crowdReport is what a worker saw.
type crowdReport struct {
	Acquired int
	Longest  time.Duration // the longest wait of a goroutine
	Faults   []string
}

// A counter that nothing but the lock protects is exact, tokens rise in the
// order of holding, and nobody starves.
func TestCrowd(t *testing.T) {
	eachAdapter(t, func(s *subject) {
		s.server.Do("SET", "counter", "0", "PX", "600000")
		s.server.Do("SET", "token", "0", "PX", "600000")
		reports := make([]crowdReport, crowdProcesses)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range reports {
			wg.Go(func() {
				out, err := runWorker(s.Context(), "crowd", "ADAPTER="+s.adapter, "ADDR="+s.server.Addr())
				if err == nil {
					err = json.Unmarshal(out, &reports[i])
				}
				if err != nil {
					s.Errorf("worker %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		took := time.Since(began)

		sum, longest := 0, time.Duration(0)
		for i, r := range reports {
			for _, fault := range r.Faults {
				s.Errorf("worker %d: %s", i, fault)
			}
			sum += r.Acquired
			longest = max(longest, r.Longest)
		}
		if got := s.server.String("GET", "counter"); got != fmt.Sprint(sum) || sum < crowdTotal {
			s.Errorf("the counter shows %s after %d acquisitions, want the same and at least %d", got, sum, crowdTotal)
		}
		within(s, "longest wait", longest, 5*time.Second)
		s.Logf("%d acquisitions in %v, longest wait %v, by process %v", sum, took.Round(time.Millisecond), longest.Round(time.Millisecond),
			[]int{reports[0].Acquired, reports[1].Acquired, reports[2].Acquired, reports[3].Acquired})
		s.server.Do("DEL", "counter", "token")
		if keys := lockKeys(s.server.Admin); len(keys) != 0 {
			s.Errorf("left behind: %q", keys)
		}
	})
}

// runWorker runs the test binary as a worker and returns what it printed.
func runWorker(ctx context.Context, job string, env ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), workerVar+"="+job), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, nil
}

func workInCrowd() error {
	addr := os.Getenv("ADDR")
	conn, shut, err := dial.Server(os.Getenv("ADAPTER"), addr, "", "")
	if err != nil {
		return err
	}
	defer shut()
	data := redis.NewClient(&redis.Options{Addr: addr})
	defer data.Close()
	c := &crowd{locker: holdfast.New(redishold.New(conn, nil), nil), data: data}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range crowdGoroutines {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(c.report)
}

type crowd struct {
	locker *holdfast.Locker
	data   *redis.Client
	mu     sync.Mutex
	report crowdReport
}

// work takes the lock and counts, until all have counted enough.
func (c *crowd) work(ctx context.Context) {
	for {
		start := time.Now()
		lock, err := c.locker.Lock(ctx, "crowd")
		if err != nil {
			c.fault("Lock: %v", err)
			return
		}
		waited := time.Since(start)
		counted, err := c.count(ctx, lock)
		if err := lock.Unlock(); err != nil {
			c.fault("Unlock: %v", err)
		}
		if err != nil {
			c.fault("count: %v", err)
			return
		}
		c.mu.Lock()
		c.report.Longest = max(c.report.Longest, waited)
		if counted {
			c.report.Acquired++
		}
		c.mu.Unlock()
		if !counted {
			return
		}
	}
}

// count reads and writes in separate steps: only the lock excludes others.
func (c *crowd) count(ctx context.Context, lock *holdfast.Lock) (bool, error) {
	var n, last uint64
	values, err := c.data.MGet(ctx, "counter", "token").Result()
	if err != nil {
		return false, err
	}
	if _, err := fmt.Sscan(fmt.Sprintln(values...), &n, &last); err != nil {
		return false, err
	}
	if n >= crowdTotal {
		return false, nil
	}
	if lock.Token() <= last {
		c.fault("token %d after %d", lock.Token(), last)
	}
	err = c.data.MSet(ctx, "counter", n+1, "token", lock.Token()).Err()
	return err == nil, err
}

func (c *crowd) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.report.Faults) < 10 {
		c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
	}
}
