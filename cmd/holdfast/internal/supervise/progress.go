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
)

const (
	progressEvery = time.Second
	progressLimit = 900 * time.Millisecond // so that the first message comes within two seconds
	// A wait that ends within this time gets no message: on a terminal, and elsewhere.
	terminalGrace = 300 * time.Millisecond
	pipeGrace     = time.Second
)

// progress shows people which lock a command waits for. On a terminal it is one line that is
// drawn again each second and erased at the end. Elsewhere it is a message at the beginning
// and one at the end.
type progress struct {
	*session
	quiet     bool     // nothing is printed
	screen    *os.File // nil: no terminal
	begun     time.Time
	printed   bool
	troubled  bool      // the last call had failed when show was last called
	holder    string    // the holder in the last answer
	sameSince time.Time // since when the holder is the same
	silent    time.Time // since when the store does not answer; zero if it does
}

// wait takes the lock, and shows people meanwhile what it waits for. If messages were printed,
// and the lock was acquired, it prints a last one. If not, the command prints an error.
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
	var nested error // ends the wait
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

// show draws the line again on a terminal. Elsewhere it prints a message the first time, and
// each time that the store begins to fail to grant the lock for another reason than a holder.
func (p *progress) show(ctx context.Context) {
	_, err := p.attempts.last()
	if p.screen != nil || !p.printed || err != nil && !p.troubled {
		text := p.read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case p.screen != nil:
			width, _, _ := term.GetSize(int(p.screen.Fd()))
			if width < 2 { // it is not known
				width = 80
			}
			p.Report.Draw(output.Cut(text, width-1))
		default:
			p.printed = true
			p.Report.Line(output.LevelNotice, text)
		}
	}
	p.troubled = err != nil
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
	silent := errors.Is(reason, context.DeadlineExceeded)
	if silent {
		reason = p.store.Trouble(ctx)
	}
	switch {
	case reason != nil:
		return text + "; the store does not grant it: " + output.Clean(output.OneLine(reason))
	case silent:
		return text + p.silence()
	}
	records, err := p.console.Get(ctx, p.Name)
	if errors.Is(err, context.DeadlineExceeded) {
		return text + p.silence()
	}
	p.silent = time.Time{}
	if err != nil {
		return text
	}
	return text + p.describe(records[0])
}

// silence returns a text about how long the store has not answered.
func (p *progress) silence() string {
	if p.silent.IsZero() {
		p.silent = time.Now().Add(-progressLimit)
	}
	return fmt.Sprintf("; the store has not answered for %s", output.Coarse(time.Since(p.silent)))
}

// describe returns how long the lock has been held, as far as answers have shown, when its
// lease ends, how many others wait, and the holder. Text that may be long comes last, because
// the line is cut at the width of the terminal.
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
		text += " " + held.Truncate(time.Second).String() + "+" // or longer: before the first answer
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
		text += ", " + output.Plural(r.Listeners-1, "other") + " waiting"
	}
	return text + "; by " + output.People(r)
}

// attempts has the results of the calls with which a command requests a lock.
type attempts struct {
	busy   chan struct{} // has a value when a wait for another client has begun
	failed chan struct{} // has a value when a call has failed

	mu    sync.Mutex
	err   error  // of the last call; nil if the store has answered
	owner string // the owner of the last grant, as the store has it
}

// observe records the error of a try, that the lock is busy, or the owner of a grant.
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
		a.owner = e.Owner
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (a *attempts) last() (owner string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owner, a.err
}
