package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// checkEvery is the longest time between two checks. A check does not ask the store.
const checkEvery = time.Second

// supervisor stops a command before another client can get the lock. The lock counts as lost
// at a deadline, which each renewal makes later. The command gets the stop signal when only the
// time `grace` is left, and SIGKILL at the deadline. If the lock is known to be lost earlier, the
// command gets the stop signal at once.
type supervisor struct {
	*runner
	lock  *holdfast.Lock
	group *procgroup.Group

	locker   *holdfast.Locker
	guardian guardian

	deadline time.Time // when the lock counts as lost, according to the last renewal that is known
	stopped  error     // why a check stopped the command; nil if no check did
}

// watch returns when no process of the command is left. It returns nil, or why the supervisor
// stopped the command.
func (s *supervisor) watch(ctx context.Context) error {
	over := s.lock.Context(ctx)
	ended := over.Done()
	check := time.After(0)
	for {
		select {
		case <-s.group.Done():
			return s.stopped
		case sig := <-s.signals:
			s.forward(sig)
		case <-check:
			if next := s.check(); next > 0 {
				check = time.After(next)
			}
		case <-ended:
			ended = nil
			if ctx.Err() != nil {
				s.stop()
			} else {
				s.check()
			}
		}
	}
}

func (s *supervisor) forward(sig os.Signal) {
	if sig == procgroup.Suspending {
		s.warnOfStop(false)
		return
	}
	number, _ := sig.(syscall.Signal) // as all of procgroup.Signals are
	if number == s.stepDownOn {
		s.Report.Line(output.LevelNotice, "asked to step down; stopping the command")
		s.stop()
		return
	}
	s.ended = s.ended || procgroup.Ends(sig)
	s.group.Signal(number)
}

// check stops the command if the deadline is near or the lock is lost. It returns the time
// until the next check, or 0 if no check is needed.
func (s *supervisor) check() time.Duration {
	s.guardian.watch(s)
	if s.stopped != nil {
		return 0
	}
	left, err := s.lock.Remaining(), s.lock.Err()
	if errors.Is(err, holdfast.ErrLost) {
		s.halt(fmt.Errorf("%w; stopping the command", lossOf(err)))
		return 0
	}
	s.deadline = time.Now().Add(left)
	s.group.KillBy(s.deadline)
	if left > s.grace {
		return min(left-s.grace, checkEvery)
	}
	s.halt(s.stopReason(left))
	return 0
}

// stopReason returns why the command has to be stopped when the lock counts as lost after the
// time `left`, and nothing renews it any more.
func (s *supervisor) stopReason(left time.Duration) error {
	switch end := s.acquired.Add(s.MaxHold); {
	case s.MaxHold > 0 && s.deadline.Add(s.MaxHoldMargin()+s.TTL/3).After(end): // no renewal can move the deadline
		return fmt.Errorf("stopping the command %s before --max-hold %s, so that it has ended by then", output.Coarse(time.Until(end)), s.MaxHold)
	case s.NoRenew:
		return fmt.Errorf("stopping the command %s before lock %q counts as lost, because --no-renew does not renew it", output.Coarse(left), s.lock.Name())
	}
	renewal := s.attempts.lastRenewal()
	text := noRenewal(s.lock.Name(), renewal, left) + "; stopping the command"
	if renewal == nil {
		return errors.New(text)
	}
	return unsent.Reworded(renewal, text)
}

// halt reports the reason, and asks the command to end.
func (s *supervisor) halt(why error) {
	s.stopped = why
	s.Report.Failure(why)
	s.stop()
	s.guardian.takeAgain(s)
}

// stop asks the command to end. The command is killed after the time `grace`, and at the deadline
// at the latest.
func (s *supervisor) stop() {
	s.group.Stop(s.Stop, time.Now().Add(min(s.grace, time.Until(s.deadline))))
}
