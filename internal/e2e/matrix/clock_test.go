package matrix

import (
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// Wall clocks of servers.

// compiles says that a clock that can be set can be made here. In CI it has to
// be.
func compiles() bool {
	_, err := exec.LookPath("cc")
	return err == nil || os.Getenv("CI") != ""
}

// shiftable makes the clocks of servers ones that can be set. Shared ones were
// started so.
func (s *scenario) shiftable(nodes ...int) {
	s.Helper()
	if !compiles() {
		s.skip("no C compiler to make a clock that can be set")
	}
	for _, n := range nodes {
		if s.alone != nil {
			s.alone[n] = redistest.Start(s, redistest.ShiftableClock())
		}
	}
}

// clockForward: the lease ends early.
func clockForward(s *scenario) {
	s.shiftable(0)
	if s.on == strict { // a clock that leaps makes replicas look late, and a master with late ones takes no writes
		for _, server := range s.servers() {
			s.Cleanup(func() { server.Do("CONFIG", "SET", "min-replicas-max-lag", "1") })
			server.Do("CONFIG", "SET", "min-replicas-max-lag", "60")
		}
	}
	s.goneLock(func(*client) {
		for _, server := range s.keepers(s.name) {
			server.ShiftClock(s.ttl + 5*time.Second)
			s.Cleanup(func() { server.ShiftClock(0) })
		}
	})
}

// clockForwardAtOverlap: the same at the server that two majorities have in
// common.
func clockForwardAtOverlap(s *scenario) {
	s.shiftable(2)
	c, o := s.client(), s.client()
	c.reach(0, 1, 2)
	o.reach(2, 3, 4)
	k := c.take()
	c.renewed(k, 1) // there is time until the next
	s.alone[2].ShiftClock(time.Minute)
	shifted := time.Now()
	next := o.take()
	k.lost(shifted, s.ttl)
	c.reach(0, 1, 2, 3, 4)
	o.reach(0, 1, 2, 3, 4)
	s.alone[2].ShiftClock(0)
	next.mustUnlock()
}

// clockBack: what a dead holder left stays for longer.
func clockBack(s *scenario) {
	s.shiftable([]int{0, 1, 2, 3, 4}[:len(s.alone)]...)
	o, third := s.other(), s.other()
	p := s.holder()
	set := func(d time.Duration) {
		for _, server := range s.keepers(s.name) {
			server.ShiftClock(d)
		}
	}
	set(-20 * time.Second)
	defer set(0)
	p.kill()
	killed := time.Now()
	w := o.queue(s.kind)
	time.Sleep(s.ttl + s.ttl/2)
	if _, err := third.ofKindNow(s.bounded(), s.kind); !errors.Is(err, holdfast.ErrBusy) {
		s.Errorf("got %v, want ErrBusy", err)
	}
	set(0)
	next := w.served()
	s.waited(time.Since(killed), s.ttl+s.ttl/10)
	next.mustUnlock()
}
