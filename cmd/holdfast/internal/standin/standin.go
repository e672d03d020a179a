// Package standin runs a Redis stand-in inside this process, so that the demo needs no
// server. It is not for production: it keeps all data in the memory of one process and knows
// only a part of Redis.
package standin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Banner says for users what kind of server this is.
const Banner = "in-process Redis stand-in, not for production"

// tick is how often the stand-in's clock advances. A key expires up to a tick late, or early
// if it was set between two ticks. So a tick must be short compared with every lease and with
// the few milliseconds after which waiters poll again.
const tick = 2 * time.Millisecond

// Server is a running stand-in. Addr returns its host and port, Keys the keys of database 0.
type Server struct {
	*miniredis.Miniredis
	stop  context.CancelFunc
	clock sync.WaitGroup
}

// Start starts a stand-in on a free port of the loopback interface. Until Close its clock
// follows the clock of the system.
func Start() (*Server, error) {
	s := &Server{Miniredis: miniredis.NewMiniRedis()}
	if err := s.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the Redis stand-in: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.SetTime(time.Now())
	s.clock.Go(func() { s.runClock(ctx) })
	return s, nil
}

// URL returns the address as a redis:// URL.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Close ends the stand-in and all its connections, and returns when all of its goroutines
// have ended. It may be called twice.
func (s *Server) Close() {
	s.stop()
	s.clock.Wait()
	s.Miniredis.Close()
}

// runClock advances the clock of the keys, which miniredis does not do by default. With its
// option ClockTTL miniredis reads the system's clock, but then a key may expire in the middle
// of a script, which never happens in Redis.
func (s *Server) runClock(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			now := time.Now()
			s.FastForward(now.Sub(last))
			s.SetTime(now)
			last = now
		}
	}
}
