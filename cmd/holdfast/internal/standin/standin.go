// Package standin runs a Redis stand-in inside this process, so that the demo needs no
// server. It is not for production: it keeps all data in the memory of one process and knows
// only a part of Redis.
package standin

import (
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

// Server is a running stand-in.
type Server struct {
	mini *miniredis.Miniredis
	stop func()
	done chan struct{} // closed when runClock has returned
}

// Start starts a stand-in on a free port of the loopback interface. Until Close its clock
// follows the clock of the system.
func Start() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the Redis stand-in: %w", err)
	}
	stop := make(chan struct{})
	s := &Server{
		mini: mini,
		stop: sync.OnceFunc(func() { close(stop) }),
		done: make(chan struct{}),
	}
	mini.SetTime(time.Now())
	go s.runClock(stop)
	return s, nil
}

// Addr returns the host and port that the stand-in listens on.
func (s *Server) Addr() string { return s.mini.Addr() }

// URL returns the address as a redis:// URL.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Keys returns the keys of database 0, sorted.
func (s *Server) Keys() []string { return s.mini.Keys() }

// Close ends the stand-in and all its connections, and returns when all of its goroutines
// have ended. It may be called twice.
func (s *Server) Close() {
	s.stop()
	<-s.done
	s.mini.Close()
}

// runClock advances the clock of the keys, which miniredis does not do by default. With its
// option ClockTTL miniredis reads the system's clock, but then a key may expire in the middle
// of a script, which never happens in Redis.
func (s *Server) runClock(stop <-chan struct{}) {
	defer close(s.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			now := time.Now()
			s.mini.FastForward(now.Sub(last))
			s.mini.SetTime(now)
			last = now
		}
	}
}
