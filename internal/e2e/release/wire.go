package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	wireTTL = 8 * time.Second // that of testdata/users/wire

	// A waiter that is not woken asks the store again 750 ms to 1 s after its last try.
	// Turns begin with a try and are released after holds, so woken separates the two. A
	// busy machine may delay a turn: some of each version have to be quick.
	holds     = 300 * time.Millisecond
	woken     = 200 * time.Millisecond
	quick     = 3
	mostTurns = 24
)

// wire is one store, with programs of two versions.
type wire struct{ old, now, url, dir string }

// run has both versions take one lock in turns and at the same time, and kills one.
func (w wire) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	both := [][2]string{{w.old, w.now}, {w.now, w.old}}
	parts := []func() error{
		func() error { return w.pair(ctx, "turns", both[0], w.turns) },
		func() error { return w.pair(ctx, "contended", both[0], w.contended) },
	}
	for i, order := range both {
		parts = append(parts, func() error { return w.pair(ctx, fmt.Sprint("killed", i), order, w.killed) })
	}
	errs := make(chan error)
	for _, do := range parts {
		go func() { errs <- do() }()
	}
	var err error
	for range parts {
		err = errors.Join(err, <-errs)
	}
	return err
}

// pair starts a process of each program, and ends them.
func (w wire) pair(ctx context.Context, name string, programs [2]string, do func(ctx context.Context, name string, a, b *peer) error) error {
	var ps [2]*peer
	for i, program := range programs {
		p, err := startPeer(ctx, program, w.url)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer p.kill()
		ps[i] = p
	}
	if err := do(ctx, name, ps[0], ps[1]); err != nil {
		return fmt.Errorf("%s, first %s: %w", name, filepath.Base(filepath.Dir(programs[0])), err)
	}
	return nil
}

// turns has one hold the lock while the other waits. The waiter is woken.
func (w wire) turns(ctx context.Context, name string, a, b *peer) error {
	last := uint64(0)
	if err := a.takes(ctx, name, wireTTL, &last); err != nil {
		return err
	}
	wakes := map[*peer]int{}
	for range mostTurns {
		if err := b.waits(ctx, name); err != nil {
			return err
		}
		released := time.Now()
		if _, err := a.ask(ctx, "unlock", wireTTL); err != nil {
			return err
		}
		if err := b.granted(ctx, wireTTL, &last); err != nil {
			return err
		}
		if time.Since(released) < woken {
			wakes[b]++
		}
		if wakes[a] >= quick && wakes[b] >= quick {
			return nil
		}
		a, b = b, a
	}
	return fmt.Errorf("of %d turns, waiters of one version got the lock within %v %d times, of the other %d times; want %d of each", mostTurns, woken, wakes[a], wakes[b], quick)
}

// killed ends the holder while the other waits. The waiter gets the lock when the lease
// ends.
func (w wire) killed(ctx context.Context, name string, a, b *peer) error {
	last := uint64(0)
	if err := a.takes(ctx, name, wireTTL, &last); err != nil {
		return err
	}
	if err := b.waits(ctx, name); err != nil {
		return err
	}
	a.kill()
	return b.granted(ctx, 3*wireTTL, &last)
}

// contended has both take the lock as often as they can.
func (w wire) contended(ctx context.Context, name string, a, b *peer) error {
	scheme, _, _ := strings.Cut(w.url, ":")
	file := filepath.Join(w.dir, "section-"+scheme)
	for _, p := range []*peer{a, b} {
		if err := p.send("contend " + name + " " + file); err != nil {
			return err
		}
	}
	for _, p := range []*peer{a, b} {
		line, err := p.read(ctx, 2*wireTTL)
		if err != nil {
			return err
		}
		if n, _ := strconv.Atoi(strings.TrimPrefix(line, "grants ")); n < 3 {
			return fmt.Errorf("one of two answers %q, want 3 grants at least", line)
		}
	}
	return tokensRise(file + ".tokens")
}

// tokensRise reads tokens in the order of their grants.
func tokensRise(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	last := uint64(0)
	for field := range strings.FieldsSeq(string(text)) {
		token, err := strconv.ParseUint(field, 10, 64)
		if err != nil || token <= last {
			return fmt.Errorf("token %s after %d %w", field, last, err)
		}
		last = token
	}
	return nil
}

// peer is a process of testdata/users/wire.
type peer struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string
	dead  atomic.Bool
}

var errSilent = errors.New("no answer in time")

func startPeer(ctx context.Context, program, url string) (*peer, error) {
	p := &peer{cmd: exec.CommandContext(ctx, program, url), lines: make(chan string, 8)}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	line, err := p.read(ctx, 30*time.Second)
	if err != nil || line != "ready" {
		p.kill()
		return nil, fmt.Errorf("%s: %q %w", program, line, err)
	}
	return p, nil
}

// kill ends the process with SIGKILL and waits for it.
func (p *peer) kill() {
	if p.dead.Swap(true) {
		return
	}
	_ = p.cmd.Process.Kill()
	for range p.lines { // until its output ends
	}
	_ = p.cmd.Wait()
}

func (p *peer) send(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// read returns the next line, or errSilent.
func (p *peer) read(ctx context.Context, within time.Duration) (string, error) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case line, ok := <-p.lines:
		if !ok || strings.HasPrefix(line, "error:") {
			return line, fmt.Errorf("the process ended: %s", line)
		}
		return line, nil
	case <-limit.C:
		return "", errSilent
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *peer) ask(ctx context.Context, line string, within time.Duration) (string, error) {
	if err := p.send(line); err != nil {
		return "", err
	}
	return p.read(ctx, within)
}

func (p *peer) takes(ctx context.Context, name string, within time.Duration, last *uint64) error {
	if err := p.send("lock " + name); err != nil {
		return err
	}
	return p.granted(ctx, within, last)
}

// waits begins to wait for a lock that the other holds.
func (p *peer) waits(ctx context.Context, name string) error {
	if err := p.send("lock " + name); err != nil {
		return err
	}
	if line, err := p.read(ctx, holds); !errors.Is(err, errSilent) {
		return fmt.Errorf("a waiter beside a holder answers %q %w", line, err)
	}
	return nil
}

// granted wants a grant, with a token above the last one.
func (p *peer) granted(ctx context.Context, within time.Duration, last *uint64) error {
	line, err := p.read(ctx, within)
	if err != nil {
		return fmt.Errorf("a waiter: %w", err)
	}
	token, err := strconv.ParseUint(strings.TrimPrefix(line, "held "), 10, 64)
	if err != nil || token <= *last {
		return fmt.Errorf("%q after token %d", line, *last)
	}
	*last = token
	return nil
}
