// Package elect chooses one leader among processes. The processes campaign for the same lock,
// and the holder of the lock leads.
//
//	e := elect.New(locker.Mutex("leader/billing"))
//	err := e.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
//		return bill(term, lock.Token()) // until term is done
//	})
//
// Each process has an Election of its own. Any process can find out which one leads, by the
// text in the holdfast.Options.Note of the leader:
//
//	for leader, err := range elect.Watch(ctx, admin.New(store), "leader/billing") {
//		// leader.Note, "" while no process leads
//	}
//
// The metric `leader` of packages promhold and otelhold follows the lock, if their
// Options.Elections have its name.
//
// There is at most one leader under the conditions of package holdfast. If a leader cannot
// reach the store, its term is over before the next one begins. A leader that was paused by the
// system does not notice the end of its term before it runs again. A leader whose lock an
// operator ends by force is notified at the next renewal, as docs/guarantees.md says. So let
// the leader send lock.Token with each write, and have the resource refuse smaller tokens: see
// package fence.
package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/alone"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// ErrNotLeading is what Leading and StepDown return if this process has no term.
var ErrNotLeading = errors.New("not the leader")

// ErrSteppedDown is the cause of the context of a term that StepDown has ended.
var ErrSteppedDown = errors.New("asked to step down")

// Election is the candidacy of a process for the lock.
type Election struct {
	// Logger gets a line when a term begins or ends, and one for each campaign that the store
	// refuses. Set it before Run. Default: no log.
	Logger *slog.Logger

	mutex   *holdfast.Mutex
	opts    []holdfast.Option
	running atomic.Bool
	term    atomic.Pointer[term] // nil while this process has no term
}

// term is the time in which this process leads.
type term struct {
	lock *holdfast.Lock
	end  context.CancelCauseFunc       // ends the context of the term
	rest atomic.Pointer[time.Duration] // of StepDown: how long this process is no candidate; nil before StepDown
}

// New returns a candidacy for the lock m, which must not be the read side of a RWMutex. It does
// no I/O. The options apply to each campaign. For example, with AtMost a term ends after the time
// of AtMost, and Run campaigns again.
func New(m *holdfast.Mutex, opts ...holdfast.Option) *Election {
	return &Election{mutex: m, opts: opts}
}

// Run campaigns, and calls the function `lead` with each term that this process wins. The
// context of a term ends when ctx ends, and when the lock is lost. Then `lead` must return as
// soon as it can.
//
// When `lead` returns after a loss, Run campaigns again, whatever `lead` returned. A new term
// never begins before `lead` has returned from the old one. The same holds after StepDown: Run
// releases the lock when `lead` has returned, and campaigns again after the pause of StepDown.
//
// When `lead` returns otherwise, also because ctx has ended, this process resigns. Run
// then releases the lock, so that another process leads at once, and returns the error of
// `lead`. If the release fails, Run joins the error of the release with that of `lead`. To
// campaign once more, call Run again. Run releases the lock also if `lead` panics.
//
// If the store refuses a campaign, and an operator can repair that, Run goes on as
// holdfast.RetryRefused says: with pauses of 250 ms to 5 s. Examples are a changed password, a
// missing permission and a full disk. If the store has never answered the Locker, a wrong
// password or a missing permission is an error, because it may be wrong since the beginning.
//
// If this process wins no term, Run returns the error of Lock. That is the error of ctx if ctx
// has ended, ErrBusy after the time of the option Wait, or an error that does not go away by
// waiting. Run returns an error at once while another Run of the same Election goes on, and for
// the read side of a RWMutex, which several processes hold at the same time.
func (e *Election) Run(ctx context.Context, lead func(term context.Context, lock *holdfast.Lock) error) error {
	if err := alone.Check(e.mutex); err != nil {
		return fmt.Errorf("election %q: %w", e.mutex.Name(), err)
	}
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("election %q: another Run of this Election has not returned", e.mutex.Name())
	}
	defer e.running.Store(false)
	log := e.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("election", e.mutex.Name())
	outlast := holdfast.RetryRefused(func(refusal error, pause time.Duration) {
		log.WarnContext(ctx, "the store refuses the campaign, asking again", "pause", pause, "err", refusal)
	})
	opts := append([]holdfast.Option{outlast}, e.opts...)
	for {
		var end ending
		err := e.mutex.Do(ctx, func(term context.Context, lock *holdfast.Lock) (err error) {
			end, err = e.serve(term, lock, log, lead)
			return err
		}, opts...)
		if !end.again {
			return err
		}
		if end.pause > 0 {
			log.InfoContext(ctx, "stepped down", "pause", end.pause, "err", err)
			retry.Sleep(ctx, end.pause)
		}
	}
}

// ending is how a term ended. A zero ending is that of a process that resigns, or had no term.
type ending struct {
	again bool          // Run campaigns again
	pause time.Duration // before it does so
}

// serve is one term. It returns how the term ended, and the error of `lead`.
func (e *Election) serve(ctx context.Context, lock *holdfast.Lock, log *slog.Logger, lead func(context.Context, *holdfast.Lock) error) (end ending, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	this := &term{lock: lock, end: cancel}
	e.term.Store(this)
	defer e.term.Store(nil)
	log.InfoContext(ctx, "leading", "token", lock.Token())
	err = lead(ctx, lock)
	if pause := this.rest.Load(); pause != nil {
		end = ending{again: true, pause: *pause}
	}
	if ended := lock.Err(); errors.Is(ended, holdfast.ErrLost) {
		log.WarnContext(ctx, "the term is lost", "token", lock.Token(), "err", ended)
		end.again = true
		return end, err
	}
	log.InfoContext(ctx, "resigning", "token", lock.Token(), "err", err)
	return end, err
}

// StepDown ends the term of this process: its context ends, with the cause ErrSteppedDown. When
// the function `lead` has returned, Run releases the lock, so that another candidate leads, and
// this process is no candidate for the time `pause`. No two leaders overlap. StepDown does not
// wait for that. It returns ErrNotLeading if this process has no term, and nil if it has asked
// before. An operator calls it, for example by an HTTP handler of the program, before a machine
// is taken down. Choose a pause of some seconds at least: if it is too short, this process may
// win the next term, too.
func (e *Election) StepDown(pause time.Duration) error {
	term := e.term.Load()
	if term == nil {
		return fmt.Errorf("election %q: %w", e.mutex.Name(), ErrNotLeading)
	}
	if term.rest.CompareAndSwap(nil, &pause) {
		term.end(ErrSteppedDown)
	}
	return nil
}

// Leading returns nil while this process leads. Otherwise it returns ErrNotLeading, or ErrLost
// if the lock of a term is lost and the function `lead` has not returned yet. A process leads
// until `lead` returns, also after ctx has ended. Leading does no I/O, and is cheap enough for
// each request.
func (e *Election) Leading() error {
	if term := e.term.Load(); term != nil {
		return term.lock.Err()
	}
	return fmt.Errorf("election %q: %w", e.mutex.Name(), ErrNotLeading)
}

// IsLeader returns what Leading returns. It makes an Election an Elector of gocron.
func (e *Election) IsLeader(context.Context) error { return e.Leading() }
