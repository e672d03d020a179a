package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/plural"
	"github.com/holdfast-go/holdfast/internal/retry"
)

const (
	progressEvery = time.Second
	progressLimit = 900 * time.Millisecond // for the store to answer, so that the first message comes within two seconds
	// There is no message for a wait that is shorter than this: on a terminal, and elsewhere.
	terminalGrace = 300 * time.Millisecond
	pipeGrace     = time.Second
)

// progress shows people which lock a command waits for. On a terminal, it draws one line again
// each second, and the line is erased at the end. Elsewhere, there is a message at the beginning
// and one at the end.
type progress struct {
	*session
	quiet     bool     // nothing is printed
	screen    *os.File // nil: no terminal
	begun     time.Time
	printed   bool
	trouble   int       // what troubleOf returned for the last try at the last call of show, or for the reason that it has shown
	holder    string    // the holder in the last answer
	sameSince time.Time // when the hold of that holder began, or was first seen
	silent    time.Time // since when the store does not answer; zero if it answers
}

// wait takes the lock, and meanwhile shows people what it waits for. If it has printed a message,
// it prints another one when it has acquired the lock. It returns an error without printing it.
func (s *session) wait(ctx context.Context, locker *holdfast.Locker) (*holdfast.Lock, error) {
	if s.Nonblock {
		return s.take(ctx, locker)
	}
	p := &progress{
		session: s, begun: time.Now(),
		quiet: s.SkipOK && !output.IsTerminal(s.Env.Stderr), // so that cron sends no mail
	}
	if s.Env.LiveTerminal(s.Env.Stderr) && !s.Env.JSONMessages() {
		p.screen, _ = s.Env.Stderr.(*os.File)
	}
	ctx, cancel := context.WithCancel(ctx)
	var nested error // the error of run, which ends the wait
	var running sync.WaitGroup
	running.Go(func() {
		if nested = p.run(ctx); nested != nil {
			cancel()
		}
	})
	lock, err := s.take(ctx, locker)
	cancel()
	running.Wait()
	s.Report.Erase()
	switch {
	case err != nil && nested != nil:
		return nil, nested
	case err == nil && p.printed:
		s.Report.Line(output.LevelNotice, fmt.Sprintf("got lock %q after %s", p.Name, output.Coarse(time.Since(p.begun))))
	}
	return lock, err
}

// run shows what the command waits for until ctx ends. It returns an error if the lock cannot
// become free.
func (p *progress) run(ctx context.Context) error {
	grace := pipeGrace
	if p.screen != nil {
		grace = terminalGrace
	}
	tick := time.After(grace)
	for {
		select {
		case <-p.attempts.busy:
			if err := p.nested(ctx); err != nil {
				return err
			}
		case <-p.attempts.failed:
			if p.printed {
				p.show(ctx)
			}
		case <-tick:
			tick = time.After(progressEvery)
			if !p.quiet {
				p.show(ctx)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// show draws the line again on a terminal. Elsewhere, it prints a message at its first call,
// and one more each time that tries begin to fail, or that a try says more than the ones before.
func (p *progress) show(ctx context.Context) {
	_, err := p.attempts.last()
	before := p.trouble
	p.trouble = troubleOf(err)
	if p.screen != nil || !p.printed || p.trouble > before {
		text := p.read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case p.screen != nil:
			width, _, _ := term.GetSize(int(p.screen.Fd()))
			if width < 2 { // the width is not known
				width = 80
			}
			p.Report.Draw(output.Cut(text, width-1))
		default:
			p.printed = true
			p.Report.Line(output.LevelNotice, text)
		}
	}
}

// troubleOf returns how much the error of a try says: nothing (0), that the store has not answered
// in time (1), or why the store does not grant the lock (2).
func troubleOf(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.DeadlineExceeded):
		return 1
	}
	return 2
}

// read returns a text about what the command waits for: the end of a hold, or the end of the
// trouble of the store.
func (p *progress) read(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	waited := ""
	if d := time.Since(p.begun); d >= 2*time.Second {
		waited = d.Truncate(time.Second).String() + " "
	}
	text := fmt.Sprintf("waiting %sfor lock %q", waited, p.Name)
	_, reason := p.attempts.last()
	silent := troubleOf(reason) == 1
	if silent {
		reason = p.store.Trouble(ctx)
	}
	switch {
	case reason != nil:
		return text + p.refusal(reason)
	case silent:
		return text + p.unanswered(ctx)
	}
	records, err := p.console.Get(ctx, p.Name)
	if errors.Is(err, context.DeadlineExceeded) {
		return text + p.unanswered(ctx)
	}
	p.silent = time.Time{}
	if err != nil {
		return text
	}
	return text + p.describe(records[0])
}

// refusal returns a text about the error of a try that has an answer of the store.
func (p *progress) refusal(reason error) string {
	p.trouble = 2
	return "; the store does not grant it: " + output.Clean(output.OneLine(reason))
}

// unanswered returns a text about a question that had no answer in time. The next try may have an
// answer a little later: for example, a store that waits for replicas in vain answers when that
// wait is over. So unanswered waits for it at the first time, until ctx ends.
func (p *progress) unanswered(ctx context.Context) string {
	for p.silent.IsZero() && ctx.Err() == nil {
		if _, reason := p.attempts.last(); troubleOf(reason) == 2 {
			return p.refusal(reason)
		}
		select {
		case <-p.attempts.failed:
		case <-ctx.Done():
		}
	}
	return p.silence()
}

// silence returns a text about how long the store has not answered.
func (p *progress) silence() string {
	if p.silent.IsZero() {
		p.silent = time.Now().Add(-progressLimit)
	}
	return fmt.Sprintf("; the store has not answered for %s", output.Coarse(time.Since(p.silent)))
}

// describe returns a text with the time for which the lock was seen held, the end of its lease,
// the number of other waiters, and the holder. The part that may be long comes last, because the
// line is cut at the width of the terminal.
func (p *progress) describe(r admin.Record) string {
	if len(r.Holds) == 0 {
		return ""
	}
	first := r.Holds[0]
	if first.Kept() {
		return ": " + output.People(r)
	}
	if owner := first.Owner; owner != p.holder {
		p.holder, p.sameSince = owner, time.Now().Add(-first.HeldFor)
	}
	text := ": held"
	if held := time.Since(p.sameSince); held >= 2*time.Second {
		text += " " + held.Truncate(time.Second).String() + "+" // the hold may have begun before the first answer
	}
	if ends := output.Lease(r); ends >= 0 {
		text += ", lease ends in " + output.Coarse(ends).String()
	}
	host, _ := os.Hostname()
	ahead := slices.IndexFunc(r.Waiters, func(w admin.Waiter) bool {
		return w.Client.PID == os.Getpid() && w.Client.Host == host
	})
	switch {
	case ahead > 0:
		text += fmt.Sprintf(", %d ahead", ahead)
	case ahead == 0:
		text += ", you are next"
	case r.Waiting == 0 && r.Listeners > 1:
		text += ", " + plural.Count(r.Listeners-1, "other") + " waiting"
	}
	return text + "; by " + output.People(r)
}

// attempts has the results of the calls with which a command requests a lock and renews it.
type attempts struct {
	busy   chan struct{} // has a value when a wait for another client has begun
	failed chan struct{} // has a value when a call has failed

	mu      sync.Mutex
	err     error  // the error of the last try; nil if the store has answered it
	owner   string // the owner of the last grant, as the store has it
	renewal error  // the error of the last renewal; nil if it succeeded, or if there was none since the grant
}

// observe records the error of a try or of a renewal, that the lock is busy, or the owner of a
// grant.
func (a *attempts) observe(e holdfast.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case e.Type == holdfast.EventCall && e.Op == holdfast.OpTry:
		if a.err = e.Err; a.err != nil {
			notify(a.failed)
		}
	case e.Type == holdfast.EventWait:
		notify(a.busy)
	case e.Type == holdfast.EventAcquire && e.Err == nil:
		a.owner, a.renewal = e.Owner, nil
	case e.Type == holdfast.EventRenew:
		a.renewal = retry.ToReport(a.renewal, e.Err)
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lastRenewal returns the error of the last renewal, or nil if it succeeded.
func (a *attempts) lastRenewal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.renewal
}

func (a *attempts) last() (owner string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner, a.err
}
