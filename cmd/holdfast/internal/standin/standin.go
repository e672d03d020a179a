// Package standin runs a Redis stand-in inside the own process, so that the
// demo needs no server. It is not for production: it keeps everything in one
// process's memory and knows only a part of Redis.
package standin

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Banner says what they are talking to.
const Banner = "in-process Redis stand-in, not for production"

// tick is how often the stand-in's clock moves. A key expires up to a tick late,
// or early if it was set between two ticks; so it has to be short beside every
// lease and beside the few milliseconds after which waiters look again.
const tick = 2 * time.Millisecond

// Server is a running stand-in.
type Server struct {
	mini *miniredis.Miniredis
	stop func()
	done chan struct{} // closed when the clock stands still
}

// Start starts a stand-in on a free port of the loopback interface. Its clock
// runs with the wall clock until Close.
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

// Close ends the stand-in and all its connections, and returns when nothing of
// it is left running. Closing twice is fine.
func (s *Server) Close() {
	s.stop()
	<-s.done
	s.mini.Close()
}

// runClock lets time pass for the keys, whose TTLs stand still by default.
// miniredis could look at the clock by itself (ClockTTL), but then a key may
// expire in the middle of a script, which no Redis does.
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
