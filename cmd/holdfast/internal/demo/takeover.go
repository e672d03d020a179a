package demo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// samples is how many times the lease of the held lock is read if Out is not a terminal.
const samples = 6

// takeover is round 3: alice is paused while she holds the lock, and bob gets it.
type takeover struct {
	*demo
	*result
	alice, bob *process
	aliceToken uint64
}

// pausedHolder shows what a lock cannot prevent, and what helps. A holder that is paused for
// longer than its lease continues and writes. The ledger refuses the write because of the
// fencing token.
func (d *demo) pausedHolder(ctx context.Context) (result, error) {
	d.heading("Round 3: a holder that is paused")
	r := result{round: "3  paused holder", verdict: "stale write refused", outcome: outcome{Buyers: 2, Items: 1}}
	if !canPause {
		d.printf("This round is left out, because this system cannot pause a process.")
		r.verdict = "skipped"
		return r, nil
	}
	defer d.endProcesses()
	t := takeover{demo: d, result: &r}
	for _, step := range []func(context.Context) error{t.aliceLocks, t.look, t.bobTakesOver, t.aliceWakes, t.finish} {
		if err := step(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// aliceLocks starts both processes, and lets alice take the lock.
func (t *takeover) aliceLocks(ctx context.Context) (err error) {
	if err := t.shop.sweep(ctx); err != nil {
		return err
	}
	whole := t.Timeout + t.Look
	if t.alice, err = t.start(ctx, job{Name: "alice", Lease: t.lease, Work: whole, Late: true}, make(chan message)); err != nil {
		return err
	}
	if t.bob, err = t.start(ctx, job{Name: "bob", Lease: t.lease, Work: whole}, make(chan message)); err != nil {
		return err
	}
	for _, p := range t.processes {
		if _, err := t.expect(ctx, p, ready); err != nil {
			return err
		}
	}
	t.alice.send(wordGo)
	m, err := t.expect(ctx, t.alice, held)
	if err != nil {
		return err
	}
	t.aliceToken = m.Token
	t.printf("One item is left. Sales now go to a ledger that checks fencing tokens.")
	t.printf("alice (pid %d) takes the lock and gets token %d.", t.alice.PID(), t.aliceToken)
	t.printf("Her lease is %s. Her process renews the lease as long as it runs and holds the lock.", t.lease)
	return nil
}

// look shows the data that Redis has of alice's lock, and how its lease is renewed. If the lock
// is in another store, look does not read it.
func (t *takeover) look(ctx context.Context) error {
	if t.Locks.URL != "" {
		t.printf("She keeps the lock for %s, and renews the lease.", t.Look)
		_, err := t.watchLease(ctx)
		return err
	}
	lock := t.shop.keys.lock()
	fields, err := t.shop.do(ctx, "HGETALL", lock)
	if err != nil {
		return err
	}
	left, err := t.shop.leaseLeft(ctx)
	if err != nil {
		return err
	}
	t.print("\n")
	t.printf("This is her lock in Redis:")
	t.printf("    HGETALL %s", lock)
	for field := range slices.Chunk(fields, 2) {
		t.printf("        %s = %s      (alice's client : lock number = hold count)", field[0], field[1])
	}
	t.printf("    PTTL %s", lock)
	t.printf("        %d      (ms until the lock ends by itself)", left.Milliseconds())
	if len(fields) == 0 || left <= 0 {
		t.miss("the lock was held, but Redis did not show it")
	}
	seen, err := t.watchLease(ctx)
	if err != nil {
		return err
	}
	if len(seen) > 0 {
		t.printf("    and for the next %s: %s", t.Look, strings.Join(seen, ", "))
	}
	t.print("\n")
	return nil
}

// watchLease lets alice keep the lock for the time Look. Meanwhile it reads the lease in
// Redis again and again, and returns what it read. On a terminal it returns only the
// renewals, because the status line shows each value.
func (t *takeover) watchLease(ctx context.Context) (seen []string, err error) {
	every := t.Look / samples
	if t.Terminal {
		every = min(every, 100*time.Millisecond)
	}
	if every <= 0 {
		return nil, nil
	}
	tick := time.Tick(every)
	last := t.lease
	for end := time.Now().Add(t.Look); time.Now().Before(end); {
		select {
		case <-tick:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case m := <-t.alice.heard:
			return nil, fmt.Errorf("alice lost her lock although she was not paused: %s", m.Text)
		}
		if t.Locks.URL != "" {
			continue
		}
		left, err := t.shop.leaseLeft(ctx)
		if err != nil {
			return nil, err
		}
		t.status("lease left %s %4d ms, held for another %.1f s",
			bar(left.Seconds(), t.lease.Seconds()), left.Milliseconds(), max(0, time.Until(end).Seconds()))
		switch {
		case left > last:
			seen = append(seen, fmt.Sprintf("renewed to %d", left.Milliseconds()))
		case !t.Terminal:
			seen = append(seen, fmt.Sprint(left.Milliseconds()))
		}
		last = left
	}
	return seen, nil
}

// bobTakesOver pauses alice in the middle of her work. Then it lets bob wait until her lease
// has ended, take the lock, and write.
func (t *takeover) bobTakesOver(ctx context.Context) error {
	if err := t.alice.pause(); err != nil {
		return fmt.Errorf("pause alice: %w", err)
	}
	t.printf("alice is paused (SIGSTOP), like a process on a machine that swaps, or on a laptop that was closed.")
	t.printf("She cannot renew her lease, and does not notice.")
	asked := time.Now()
	t.bob.send(wordGo)
	m, err := t.expect(ctx, t.bob, held)
	if err != nil {
		return err
	}
	t.Took = inMS(time.Since(asked))
	t.print("\n")
	t.printf("bob (pid %d) wants the lock too. After %s alice's lease has ended, and bob gets the lock,", t.bob.PID(), t.Took)
	t.printf("with a larger token: %d.", m.Token)
	if m.Token <= t.aliceToken {
		t.miss("bob's fencing token %d is not larger than alice's %d", m.Token, t.aliceToken)
	}
	if m, err = t.expect(ctx, t.bob, wrote, refused); err != nil {
		return err
	}
	if m.Kind == refused {
		t.miss("the ledger refused bob, who held the lock")
		return nil
	}
	t.printf("bob sells the last item. The ledger writes it down and remembers his token.")
	return nil
}

// aliceWakes lets alice continue. She is notified of the loss, writes nevertheless, and the
// ledger refuses her write.
func (t *takeover) aliceWakes(ctx context.Context) error {
	woken := time.Now()
	if err := t.alice.resume(); err != nil {
		return fmt.Errorf("wake alice: %w", err)
	}
	m, err := t.expect(ctx, t.alice, lost)
	if err != nil {
		return err
	}
	noticed := inMS(time.Since(woken))
	t.Took += noticed
	t.print("\n")
	t.printf("alice continues (SIGCONT). After %s her context is cancelled. The cause:", noticed)
	t.printf("    %s", m.Text)
	if m, err = t.expect(ctx, t.alice, wrote, refused); err != nil {
		return err
	}
	if m.Kind == refused {
		t.printf("alice ignores this, and writes with her old token %d.", t.aliceToken)
		t.printf("The ledger refuses her write: it has already seen token %d.", m.Token)
	} else {
		t.miss("the ledger accepted alice's write after she had lost the lock")
	}
	if m, err = t.expect(ctx, t.alice, unlocked); err != nil {
		return err
	}
	if m.Text != "" {
		t.printf("alice calls Unlock and gets ErrLost. bob still has the lock.")
	} else {
		t.miss("alice's Unlock did not return ErrLost")
	}
	return nil
}

// finish lets bob unlock, which shows that he still had the lock. It then checks that the
// ledger has one row, by bob.
func (t *takeover) finish(ctx context.Context) error {
	t.bob.send(wordGo)
	m, err := t.expect(ctx, t.bob, unlocked)
	if err != nil {
		return err
	}
	if m.Text != "" {
		t.miss("bob's Unlock failed: %s", m.Text)
	}
	ledger, err := t.shop.do(ctx, "HMGET", t.shop.keys.ledger(), "rows", "last")
	if err != nil {
		return err
	}
	t.Sold, _ = strconv.Atoi(ledger[0])
	if t.Sold != 1 || ledger[1] != "bob" {
		t.miss("the ledger has %d rows, the last by %q; want one, by bob", t.Sold, ledger[1])
	}
	return nil
}
