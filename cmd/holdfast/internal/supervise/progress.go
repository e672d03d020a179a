package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

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
	stop      context.CancelFunc
	done      chan struct{}
	printed   bool
	troubled  bool                    // inTrouble, when show was last called
	outer     []string                // outerOwners
	giveUp    context.CancelCauseFunc // ends the acquire
	holder    string                  // the holder in the last answer
	sameSince time.Time               // since when the holder is the same
	silent    time.Time               // since when the store does not answer; zero if it does
}

// startProgress starts to show what an acquire waits for. It may call giveUp to end the
// context of the acquire.
func (s *session) startProgress(ctx context.Context, giveUp context.CancelCauseFunc) *progress {
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{
		session: s, begun: time.Now(), outer: outerOwners(s.Env), giveUp: giveUp, stop: cancel, done: make(chan struct{}),
		quiet: s.SkipOK && !output.IsTerminal(s.Env.Stderr), // so that cron sends no mail
	}
	if s.Env.LiveTerminal(s.Env.Stderr) && !s.Env.JSONMessages() {
		p.screen, _ = s.Env.Stderr.(*os.File)
	}
	s.attempts.begin()
	go p.run(ctx)
	return p
}

// end erases the line. If messages were printed, and the lock was acquired, it prints a last
// one. If the lock was not acquired, the command prints an error.
func (p *progress) end(acquired bool) {
	p.stop()
	<-p.done
	p.Report.Erase()
	if p.printed && acquired {
		p.Report.Line(output.LevelNotice, fmt.Sprintf("got lock %q after %s", p.Name, output.Coarse(time.Since(p.begun))))
	}
}

func (p *progress) run(ctx context.Context) {
	defer close(p.done)
	grace := pipeGrace
	if p.screen != nil {
		grace = terminalGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	asked := false
	for {
		select {
		case <-p.attempts.changed:
			if !asked && p.attempts.held() {
				asked = true
				if err := p.nested(ctx); err != nil {
					p.giveUp(err)
					return
				}
			}
			if !p.newTrouble() {
				continue
			}
		case <-timer.C:
			timer.Reset(progressEvery)
		case <-ctx.Done():
			return
		}
		if !p.quiet {
			p.show(ctx)
		}
	}
}

// newTrouble reports whether the store now fails to grant the lock for another reason than a
// holder, and that was not so when the last message was printed.
func (p *progress) newTrouble() bool { return p.printed && !p.troubled && p.inTrouble() }

func (p *progress) inTrouble() bool {
	reason, silent := p.attempts.trouble()
	return reason != nil || silent
}

// show draws the line again on a terminal. Elsewhere it prints a message the first time, and
// each time that there is newTrouble.
func (p *progress) show(ctx context.Context) {
	trouble := p.inTrouble()
	if p.screen != nil || !p.printed || p.newTrouble() {
		text := p.read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case p.screen != nil:
			p.Report.Draw(output.Cut(text, columnsOf(p.screen)-1))
		default:
			p.printed = true
			p.Report.Line(output.LevelNotice, text)
		}
	}
	p.troubled = trouble
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
	reason, silent := p.attempts.trouble()
	if silent {
		reason = p.store.Trouble(ctx)
	}
	if reason != nil {
		return text + "; the store does not grant it: " + output.Clean(output.OneLine(reason))
	}
	if silent {
		return text + p.silence()
	}
	records, err := p.console.Get(ctx, p.Name)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return text + p.silence()
	case err == nil && len(records) == 1:
		text += p.describe(records[0])
	}
	p.silent = time.Time{}
	return text
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
	switch ahead, queued := p.ahead(r); {
	case queued && ahead > 0:
		text += fmt.Sprintf(", %d ahead", ahead)
	case queued:
		text += ", you are next"
	case r.Waiting == 0 && r.Listeners == 2:
		text += ", 1 other waits"
	case r.Waiting == 0 && r.Listeners > 2:
		text += fmt.Sprintf(", %d others wait", r.Listeners-1)
	}
	return text + "; by " + output.People(r)
}

// ahead returns how many waiters are in the queue before this process. It returns false if
// this process is not in the queue.
func (p *progress) ahead(r admin.Record) (ahead int, queued bool) {
	host, _ := os.Hostname()
	for i, w := range r.Waiters {
		if w.Client.PID == os.Getpid() && w.Client.Host == host {
			return i, true
		}
	}
	return 0, false
}

// columnsOf returns how many columns a terminal has.
func columnsOf(screen *os.File) int {
	width, _, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < 2 {
		return 80
	}
	return width
}
