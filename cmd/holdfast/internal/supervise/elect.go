package supervise

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// MaxBackoff is the longest pause of a candidate after a term, without the random addition.
// After a term that lasted at least as long, the pauses begin with Campaign.Backoff again.
const MaxBackoff = time.Minute

// Campaign says how a candidate asks for leadership again.
type Campaign struct {
	Once    bool          // the candidate stops after the first term
	Backoff time.Duration // the first pause after a term; each later pause is twice as long, up to MaxBackoff

	StepDownOn syscall.Signal // ends the term, but not the candidacy; 0 for no signal
}

// Elect runs the command while the lock makes this program the leader. When the command ends,
// Elect asks for leadership again, until a signal arrives. With Campaign.Once there is one term.
func Elect(ctx context.Context, p Program, l *Lock, c *Command, how Campaign) error {
	if !how.Once {
		l.Wait = forever
	}
	return withRunner(ctx, p, l, c, func(r *runner, locker *holdfast.Locker) error {
		return r.campaign(ctx, locker, how)
	})
}

// campaign runs one term after another. It returns after a signal, or after an error that the
// next term would have, too. With Once, it returns after the first term.
func (r *runner) campaign(ctx context.Context, locker *holdfast.Locker, how Campaign) error {
	backoff := how.Backoff
	r.stepDownOn = how.StepDownOn
	for {
		lock, err := r.acquire(ctx, locker)
		if err != nil {
			return err
		}
		begun := time.Now()
		err = r.hold(ctx, locker, lock)
		lasted := time.Since(begun)
		if how.Once || r.ended || ctx.Err() != nil {
			return err
		}
		r.warnUnreleased()
		if fatal := r.account(err, lasted); fatal != nil {
			return fatal
		}
		if lasted >= MaxBackoff {
			backoff = how.Backoff
		}
		// The pause is up to half longer, at random, so that candidates do not all ask at once.
		if err := r.pause(ctx, backoff+rand.N(backoff/2+1)); err != nil { //nolint:gosec // no secret
			return err
		}
		backoff = min(2*backoff, MaxBackoff)
	}
}

// account reports how a term ended. It returns `err` if the next term would end in the same way,
// for example because the command cannot be started.
func (r *runner) account(err error, lasted time.Duration) error {
	ended, known := errors.AsType[*output.ExitError](err)
	switch {
	case err == nil:
		r.Report.Line(output.LevelNotice, "the command ended with status 0 after "+output.Coarse(lasted).String()+"; campaigning again")
	case !known, ended.Err != nil && ended.Code != r.LostCode:
		return err
	case ended.Err != nil:
		r.Report.Warn("%v; campaigning again", ended.Err)
	case ended.Code == r.LostCode:
		r.Report.Warn("the term is over after %s; campaigning again", output.Coarse(lasted))
	default:
		r.Report.Warn("the command ended with status %d after %s; campaigning again", ended.Code, output.Coarse(lasted))
	}
	return nil
}
