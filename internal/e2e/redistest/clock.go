package redistest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// ErrNoClock says that a clock cannot be shifted here.
var ErrNoClock = errors.New("a server's clock can be shifted on Linux only, with a C compiler named cc on PATH (Debian: apt-get install gcc libc6-dev)")

//go:embed testdata/clock.c
var clockSource []byte

// addClock compiles the clock into the server's folder.
func (s *Server) addClock(c *config, _ ports) error {
	if !c.clock {
		return nil
	}
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		return ErrNoClock
	}
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w: %s", source, err, out)
	}
	s.clock = filepath.Join(s.dir, "clock")
	s.env = append(s.env, "LD_PRELOAD="+library, "REDISTEST_CLOCK="+s.clock)
	return s.shiftClock(0)
}

// ShiftClock makes the server's wall clock d ahead of the true one, or behind it
// if d is negative; 0 sets it right. It stays over a Restart. When ShiftClock
// returns, a server that answers goes by the new time. Without the option
// ShiftableClock it fails the test.
func (s *Server) ShiftClock(d time.Duration) {
	s.helper()
	if s.clock == "" {
		s.fail(errors.New("ShiftClock needs the option ShiftableClock"))
		return
	}
	if err := s.shiftClock(d); err != nil {
		s.fail(err)
		return
	}
	if s.running() {
		_ = poll(shiftLimit, func() error { return s.shows(d) }) // it may be busy, or wait for a cluster
	}
}

// StopClock makes the server's wall clock stand still at a time, until the next StopClock
// or ShiftClock. What a script answers and the TTLs of keys are exact then. It reports
// whether the server goes by that clock: Valkey 9 counts on between two readings of it.
// Without the option ShiftableClock it fails the test.
func (s *Server) StopClock(at time.Time) bool {
	s.helper()
	if s.clock == "" {
		s.fail(errors.New("StopClock needs the option ShiftableClock"))
		return false
	}
	if err := s.writeClock(0, at.UnixNano()); err != nil {
		s.fail(err)
		return false
	}
	for range 2 {
		if now, err := s.now(); err != nil || !now.Equal(at.Truncate(time.Microsecond)) {
			return false
		}
	}
	return true
}

// Servers ask for the time by turns of their event loop. Valkey 9 goes by the
// monotonic clock in between, and notices a shift up to a tenth of a second later.
const (
	shiftLimit = time.Second
	shiftSlack = 20 * time.Millisecond
)

// shows returns an error unless the server's time is d ahead.
func (s *Server) shows(d time.Duration) error {
	begin := time.Now()
	now, err := s.now()
	end := time.Now()
	if err != nil {
		return err
	}
	at := now.Add(-d)
	if at.Before(begin.Add(-shiftSlack)) || at.After(end.Add(shiftSlack)) {
		return fmt.Errorf("%s is not %v ahead yet", s.addr, d)
	}
	return nil
}

// now is the server's time.
func (s *Server) now() (time.Time, error) {
	reply, _ := s.within(shiftLimit).Do("TIME").([]any)
	if len(reply) != 2 {
		return time.Time{}, fmt.Errorf("%s answers TIME with %v", s.addr, reply)
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(fmt.Sprintln(reply...), &seconds, &micros); err != nil {
		return time.Time{}, err
	}
	return time.Unix(seconds, micros*1000), nil
}

func (s *Server) shiftClock(d time.Duration) error { return s.writeClock(int64(d), 0) }

// writeClock writes in place: the server has the file mapped.
func (s *Server) writeClock(offset, stopped int64) error {
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	numbers := binary.NativeEndian.AppendUint64(nil, uint64(offset))
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(numbers, uint64(stopped)), 0)
	return errors.Join(err, f.Close())
}
