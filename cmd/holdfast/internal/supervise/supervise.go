package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
)

// checkEvery is the longest time between two checks. A check does not ask the store.
const checkEvery = time.Second

// supervisor stops a command before another client can get the lock. The lock counts as lost
// at a deadline, which each renewal makes later. The command gets the stop signal the time
// grace before the deadline, and SIGKILL at the deadline. If the lock is known to be lost
// earlier, the command gets the stop signal at once.
type supervisor struct {
	*runner
	lock  *holdfast.Lock
	group *procgroup.Group

	deadline time.Time // when the lock counts as lost, according to the last check
	stopped  error     // why the command was stopped; nil if it was not
	unheld   bool      // it was stopped because of the lock: no check follows
}

func newSupervisor(r *runner, lock *holdfast.Lock, group *procgroup.Group) *supervisor {
	return &supervisor{runner: r, lock: lock, group: group}
}

// watch returns when no process of the command is left. It returns nil, or why the supervisor
// stopped the command.
func (s *supervisor) watch(ctx context.Context) error {
	over := s.lock.Context(ctx)
	ended := over.Done()
	check := time.NewTimer(0)
	defer check.Stop()
	for {
		select {
		case <-s.group.Done():
			return s.stopped
		case sig := <-s.signals:
			s.forward(sig)
		case <-check.C:
			if next := s.check(); next > 0 {
				check.Reset(next)
			}
		case <-ended:
			ended = nil
			if ctx.Err() != nil {
				s.group.Stop(s.Stop, s.killAt())
			} else {
				s.check()
			}
		}
	}
}

func (s *supervisor) forward(sig os.Signal) {
	switch number, ok := sig.(syscall.Signal); {
	case sig == procgroup.Suspending():
		s.refuseToStop()
	case ok:
		s.ended = s.ended || procgroup.Ends(sig)
		s.group.Signal(number)
	}
}

// check stops the command if the deadline is near or the lock is lost. It returns the time
// until the next check, or 0 if no check is needed.
func (s *supervisor) check() time.Duration {
	if s.unheld {
		return 0
	}
	left, err := s.lock.Remaining(), s.lock.Err()
	if errors.Is(err, holdfast.ErrLost) {
		s.unheld = true
		s.halt(fmt.Errorf("%w; stopping the command", err))
		return 0
	}
	s.deadline = time.Now().Add(left)
	s.group.KillBy(s.deadline)
	if left > s.grace {
		return min(left-s.grace, checkEvery)
	}
	s.unheld = true
	why := "was not renewed in time"
	switch end := s.acquired.Add(s.MaxHold); {
	case s.MaxHold > 0 && s.deadline.Add(s.MaxHoldMargin()+s.TTL/3).After(end): // no renewal moves the deadline
		why = fmt.Sprintf("is about to reach --max-hold %s", s.MaxHold)
	case s.NoRenew:
		why = "is about to end and is not renewed"
	}
	s.halt(fmt.Errorf("lock %q %s, %s before it counts as lost; stopping the command",
		s.lock.Name(), why, left.Round(time.Millisecond)))
	return 0
}

// halt asks the command to end. The first call also reports why.
func (s *supervisor) halt(why error) {
	if s.stopped == nil {
		s.stopped = why
		s.Report.Failure(why)
	}
	s.group.Stop(s.Stop, s.killAt())
}

// killAt returns the time at which a command that is asked to stop now is killed.
func (s *supervisor) killAt() time.Time {
	at := time.Now().Add(s.grace)
	if s.deadline.Before(at) {
		return s.deadline
	}
	return at
}

// waitAtLeast keeps the lock until --at-least is over. A signal, or the loss of the lock,
// ends it earlier.
func (s *supervisor) waitAtLeast(ctx context.Context) {
	left := time.Until(s.acquired.Add(s.AtLeast))
	if left <= 0 {
		return
	}
	s.Report.Detail("the command has ended; keeping the lock for another %s (--at-least)", left.Round(time.Millisecond))
	timer := time.NewTimer(left)
	defer timer.Stop()
	over := s.lock.Context(ctx)
	for {
		select {
		case <-timer.C:
			return
		case <-over.Done():
			return
		case sig := <-s.signals:
			if sig != procgroup.Suspending() && procgroup.Ends(sig) {
				return
			}
		}
	}
}
