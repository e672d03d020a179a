package supervise

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/supervise/procgroup"
	"github.com/holdfast-go/holdfast/elect"
)

// MaxBackoff is the longest pause of a candidate after a term.
const MaxBackoff = time.Minute

const longTerm = time.Minute // a term of at least this length counts as a success

// Campaign says how a candidate asks for leadership again.
type Campaign struct {
	Once    bool          // it ends after the first term
	Backoff time.Duration // the pause after a short term, before it is doubled
}

// candidate campaigns for leadership.
type candidate struct {
	*runner
	Campaign
}

// Elect runs c while the lock makes it the leader. When c ends, it asks for leadership again,
// until a signal ends it. With Campaign.Once there is only one term.
func Elect(ctx context.Context, p Program, l *Lock, c *Command, how Campaign) error {
	s, done := newSession(p, l)
	defer done()
	s.patient = !how.Once
	r := &candidate{&runner{session: s, Command: c}, how}
	return r.withStore(ctx, func(locker *holdfast.Locker) error { return r.campaign(ctx, locker) })
}

// campaign returns when a signal ends it, or after one term with --once.
func (c *candidate) campaign(ctx context.Context, locker *holdfast.Locker) error {
	election := elect.New(c.mutex(locker), c.options()...)
	pause := c.Backoff
	for {
		lasted, err := c.term(ctx, election)
		if lasted == noTerm || c.Once || c.ended || ctx.Err() != nil {
			return err
		}
		if fatal := c.account(err, lasted); fatal != nil {
			return fatal
		}
		if lasted >= longTerm {
			pause = c.Backoff
		}
		if err := c.rest(ctx, pause); err != nil {
			return err
		}
		pause = min(max(2*pause, c.Backoff), MaxBackoff)
	}
}

// noTerm is the length of a term that did not begin.
const noTerm = -1

// term waits for leadership, and runs the command in that term. It returns how long the term
// lasted. The election does not campaign again by itself after a loss, because the candidate
// rests before.
func (c *candidate) term(ctx context.Context, election *elect.Election) (lasted time.Duration, err error) {
	lasted = noTerm
	waiting, done := Interruptible(ctx, c.signals)
	defer done()
	failed := c.ask(waiting, func(candidacy context.Context, granted func()) error {
		return election.Run(candidacy, func(_ context.Context, lock *holdfast.Lock) error {
			granted()
			done()
			if interrupt := InterruptOf(waiting); interrupt != nil {
				err = output.Exit(interrupt.Status())
				return c.unlock(lock)
			}
			begun := time.Now()
			err = c.hold(ctx, lock)
			lasted = time.Since(begun)
			return nil
		})
	})
	if lasted == noTerm && err == nil {
		err = c.notAcquired(waiting, failed)
	}
	return lasted, err
}

// account reports how a term ended. It returns an error that would end the next term in the
// same way, such as a command that cannot be started.
func (c *candidate) account(err error, lasted time.Duration) error {
	var ended *output.ExitError
	switch {
	case err == nil:
		c.Report.Line(output.LevelNotice, "the command ended with status 0 after "+output.Coarse(lasted).String()+"; campaigning again")
	case !errors.As(err, &ended):
		return err
	case ended.Err != nil && ended.Code != c.LostCode:
		return err
	case ended.Err != nil:
		c.Report.Warn("%v; campaigning again", ended.Err)
	case ended.Code == c.LostCode:
		c.Report.Warn("the term is over after %s; campaigning again", output.Coarse(lasted))
	default:
		c.Report.Warn("the command ended with status %d after %s; campaigning again", ended.Code, output.Coarse(lasted))
	}
	return nil
}

// rest waits for pause, or up to half of it longer, so that other candidates can lead. A
// signal ends it.
func (c *candidate) rest(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	pause += rand.N(pause/2 + 1) //nolint:gosec // so that candidates do not all come at the same time
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil // the next term reports it
		case sig := <-c.signals:
			if sig != procgroup.Suspending() && procgroup.Ends(sig) {
				return output.Exit((&Interruption{signal: sig}).Status())
			}
		}
	}
}
