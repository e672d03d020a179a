package main

import (
	"context"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/admin"
)

const (
	progressEvery = time.Second
	progressLimit = 2 * time.Second // for the store to say the holder of the lock
	// A wait that is over sooner is not worth a word: on a terminal, and elsewhere.
	terminalGrace = 300 * time.Millisecond
	pipeGrace     = time.Second
)

// progress shows people the lock that a command waits for: on a terminal with one line
// that is drawn again each second and erased at the end, elsewhere with a message
// at the beginning and one at the end.
type progress struct {
	console   *admin.Console
	name      string
	report    *reporter
	screen    *os.File // nil: no terminal
	begun     time.Time
	stop      context.CancelFunc
	done      chan struct{}
	printed   bool
	holder    string    // as seen last
	sameSince time.Time // since when it is the same
	silent    time.Time // since when the store does not answer; zero if it does
}

func startProgress(ctx context.Context, console *admin.Console, name string, env environment, report *reporter) *progress {
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{
		console: console, name: name, report: report, begun: time.Now(),
		stop: cancel, done: make(chan struct{}),
	}
	if kind, _ := env.lookup("TERM"); kind != "dumb" && isTerminal(env.stderr) && report.json == nil {
		p.screen, _ = env.stderr.(*os.File)
	}
	go p.run(ctx)
	return p
}

// end erases the line. Where there was none it says that the waiting is over; if
// it was for nothing, an error says so.
func (p *progress) end(acquired bool) {
	p.stop()
	<-p.done
	p.report.erase()
	if p.printed && acquired {
		p.report.line(levelNotice, fmt.Sprintf("got lock %q after %s", p.name, coarse(time.Since(p.begun))))
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
	for {
		select {
		case <-timer.C:
			timer.Reset(progressEvery)
		case <-ctx.Done():
			return
		}
		text := p.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if p.screen == nil {
			p.printed = true
			p.report.line(levelNotice, text)
			return
		}
		p.report.draw(fit(text, p.screen))
	}
}

// read says what is waited for. A store that does not answer costs only the
// details.
func (p *progress) read(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	records, err := p.console.Get(ctx, p.name)
	waited := ""
	if d := time.Since(p.begun); d >= 2*time.Second {
		waited = d.Truncate(time.Second).String() + " "
	}
	text := fmt.Sprintf("waiting %sfor lock %q", waited, p.name)
	if err != nil || len(records) != 1 {
		return text + p.silence()
	}
	p.silent = time.Time{}
	return text + p.describe(records[0])
}

// silence says for how long the store has not answered.
func (p *progress) silence() string {
	if p.silent.IsZero() {
		p.silent = time.Now().Add(-progressLimit)
	}
	return fmt.Sprintf("; the store has not answered for %s", coarse(time.Since(p.silent)))
}

// describe says since when the lock is held, as far as it was seen, until when, who
// else waits, and its holder. What may be long stands last: the line is cut where
// the terminal ends.
func (p *progress) describe(r admin.Record) string {
	if len(r.Holds) == 0 {
		return ""
	}
	first := r.Holds[0]
	if owner := first.Owner; owner != p.holder {
		p.holder, p.sameSince = owner, time.Now().Add(-first.HeldFor)
	}
	text := ": held"
	if held := time.Since(p.sameSince); held >= 2*time.Second {
		text += " " + held.Truncate(time.Second).String() + "+" // it may have held it before the first answer, too
	}
	if ends := lease(r); ends >= 0 {
		text += ", lease ends in " + coarse(ends).String()
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
	return text + "; by " + people(r)
}

// ahead returns how many stand in the queue before this process.
func (p *progress) ahead(r admin.Record) (ahead int, queued bool) {
	host, _ := os.Hostname()
	for i, w := range r.Waiters {
		if w.Client.PID == os.Getpid() && w.Client.Host == host {
			return i, true
		}
	}
	return 0, false
}

// fit cuts text to one line of the terminal.
func fit(text string, screen *os.File) string {
	width, _, err := term.GetSize(int(screen.Fd()))
	if err != nil || width < 2 {
		width = 80
	}
	return cut(text, width-1)
}

// cut shortens text to so many characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(0, most-1)]) + "…"
}

// coarse rounds a duration to what a person wants to read.
func coarse(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}
