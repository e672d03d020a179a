package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/retry"
)

// refusalView has what a refused try found at the nodes.
type refusalView struct {
	outcomes []*driver.Outcome // by node; nil if the node did not refuse
	split    bool              // no claim has a majority
	pause    time.Duration     // the pause before the next try; random, so that claims are tried at different times
}

// Waiter returns a Waiter for c. Its Wait returns when a node that refused the last Try
// sends a notification. A holder releases the lock on a majority of the nodes, so at
// least one of the refusing nodes sends one. If no claim got a majority, Wait returns
// after Outcome.RetryAfter, which is a random time.
func (b *Backend) Waiter(c driver.Claim) driver.Waiter {
	return &waiter{backend: b, claim: c, waiters: make([]driver.Waiter, len(b.nodes))}
}

// waiter waits at all nodes.
type waiter struct {
	backend *Backend
	claim   driver.Claim
	waiters []driver.Waiter // by node; nil until one is needed
}

// Wait returns nil as the error as soon as the Waiter of one node returns without an error. It
// returns the error of ctx when ctx ends, and the errors of the nodes if all their Waiters
// fail. It ignores a grant that the Waiter of a node returns, because that is only one vote.
// Its goroutines end before it returns.
func (w *waiter) Wait(ctx context.Context, last driver.Outcome) (driver.Outcome, error) {
	return driver.Outcome{}, w.wait(ctx, last)
}

func (w *waiter) wait(ctx context.Context, last driver.Outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	seen, ok := last.Ahead.(*refusalView)
	if !ok || len(seen.outcomes) != len(w.waiters) {
		return nil // not an answer of a quorum: only another try shows the state
	}
	if seen.split {
		return sleep(ctx, seen.pause)
	}
	if err := w.first(ctx, seen); err != nil {
		return err
	}
	return sleep(ctx, seen.pause)
}

// first waits until the Waiter of one node returns without an error, and then ends the waits at
// the other nodes.
func (w *waiter) first(ctx context.Context, seen *refusalView) error {
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error)
	started := 0
	for i, outcome := range seen.outcomes {
		if outcome == nil {
			continue
		}
		started++
		go func() { answers <- w.waitAt(waits, i, *outcome) }()
	}
	woken := false
	var failed error
	for range started {
		if err := <-answers; err == nil {
			woken = true
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case woken:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case failed == nil:
		return fmt.Errorf("quorum: no node to wait for: %w", errors.ErrUnsupported)
	}
	return failed
}

// waitAt waits at one node.
func (w *waiter) waitAt(ctx context.Context, i int, last driver.Outcome) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", w.backend.nodes[i].label, p)
		}
	}()
	if w.waiters[i] == nil {
		w.waiters[i] = w.backend.nodes[i].member.Waiter(w.claim)
	}
	if _, err := w.waiters[i].Wait(ctx, last); err != nil {
		return fmt.Errorf("%s: %w", w.backend.nodes[i].label, err)
	}
	return nil
}

// Close closes the nodes' Waiters.
func (w *waiter) Close() {
	for i, member := range w.waiters {
		if member != nil {
			member.Close()
			w.waiters[i] = nil
		}
	}
}

// sleep waits for the time d. If ctx ends first, it returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	retry.Sleep(ctx, d)
	return ctx.Err()
}
