package demo

import (
	"context"
	"fmt"
	"time"
)

// takeover is round 3: alice is paused while she holds the lock, and bob gets it.
type takeover struct {
	*demo
	*result
	alice, bob           *process
	aliceToken, bobToken uint64
}

// pausedHolder shows what a lock cannot prevent, and what helps: a holder that
// is paused for longer than its lease wakes up and writes, and the ledger
// refuses the write because of its fencing token.
func (d *demo) pausedHolder(ctx context.Context) (result, error) {
	d.heading("Round 3: a holder that is paused")
	r := result{round: "3  paused holder", buyers: 2, items: 1, verdict: "stale write refused"}
	if !canPause {
		d.printf("Skipped: this system cannot pause a process.")
		r.verdict = "skipped"
		return r, nil
	}
	t := takeover{demo: d, result: &r}
	defer t.end()
	if err := t.prepare(ctx); err != nil {
		return r, err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"alice's lock", t.aliceLocks},
		{"", t.look}, // it takes as long as Look, without the limit of a phase
		{"pausing alice", t.pauseAlice},
		{"bob's turn", t.bobTakesOver},
		{"alice's awakening", t.aliceWakes},
		{"bob's unlock", t.finish},
	} {
		var err error
		if step.what == "" {
			err = step.do(ctx)
		} else {
			err = d.phase(ctx, "round 3, "+step.what+",", step.do)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// prepare starts both processes. They end with ctx.
func (t *takeover) prepare(ctx context.Context) (err error) {
	return t.phase(ctx, "round 3, starting alice and bob,", func(phase context.Context) error {
		if err := t.shop.sweep(phase); err != nil {
			return err
		}
		if t.alice, err = t.start(ctx, job{Role: roleStaller, Name: "alice", Lease: t.lease}); err != nil {
			return err
		}
		if t.bob, err = t.start(ctx, job{Role: roleHeir, Name: "bob", Lease: t.lease}); err != nil {
			return err
		}
		if _, err := t.alice.expect(phase, ready); err != nil {
			return err
		}
		_, err := t.bob.expect(phase, ready)
		return err
	})
}

func (t *takeover) end() {
	for _, p := range []*process{t.alice, t.bob} {
		if p != nil {
			p.end()
		}
	}
}

// aliceLocks lets alice take the lock.
func (t *takeover) aliceLocks(ctx context.Context) error {
	t.alice.send(wordGo)
	m, err := t.alice.expect(ctx, held)
	if err != nil {
		return err
	}
	t.aliceToken = m.Token
	t.printf("One item is left. Sales now go to a ledger that checks fencing tokens.")
	t.printf("alice (pid %d) takes the lock and gets token %d.", t.alice.pid(), t.aliceToken)
	t.printf("Her lease is %s. She renews it for as long as she lives and holds the lock.", t.lease)
	return nil
}

// pauseAlice stops alice in the middle of her work.
func (t *takeover) pauseAlice(context.Context) error {
	if err := t.alice.pause(); err != nil {
		return fmt.Errorf("pause alice: %w", err)
	}
	t.printf("alice is paused (SIGSTOP), as by a swapping machine or a closed laptop.")
	t.printf("She cannot renew her lease, and does not notice.")
	return nil
}

// bobTakesOver lets bob wait until alice's lease has ended, take the lock, and write.
func (t *takeover) bobTakesOver(ctx context.Context) error {
	asked := time.Now()
	t.bob.send(wordGo)
	m, err := t.watch(ctx, asked)
	if err != nil {
		return err
	}
	t.took, t.bobToken = time.Since(asked), m.Token
	t.printf("")
	t.printf("bob (pid %d) wants the lock too. %s later alice's lease is over and he has it,", t.bob.pid(), ms(t.took))
	t.printf("with a larger token: %d.", t.bobToken)
	if t.bobToken <= t.aliceToken {
		t.miss("bob's fencing token %d is not larger than alice's %d", t.bobToken, t.aliceToken)
	}
	if m, err = t.bob.next(ctx); err != nil {
		return err
	}
	if m.Kind != wrote {
		t.miss("the ledger refused bob, who held the lock")
		return nil
	}
	t.printf("bob sells the last item. The ledger writes it down and remembers his token.")
	return nil
}

// watch shows how long bob has been waiting, until he has the lock.
func (t *takeover) watch(ctx context.Context, asked time.Time) (message, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case m, ok := <-t.bob.messages:
			err := t.bob.verify(m, ok)
			if err == nil && m.Kind != held {
				err = fmt.Errorf("bob said %q, want %q", m.Kind, held)
			}
			return m, err
		case <-tick.C:
			t.status("bob has been waiting for %s", time.Since(asked).Round(100*time.Millisecond))
		case <-ctx.Done():
			return message{}, context.Cause(ctx)
		}
	}
}

// aliceWakes lets alice continue. She is notified of the loss, writes nevertheless, and the
// ledger refuses her write.
func (t *takeover) aliceWakes(ctx context.Context) error {
	woken := time.Now()
	if err := t.alice.resume(); err != nil {
		return fmt.Errorf("wake alice: %w", err)
	}
	m, err := t.alice.expect(ctx, lost)
	if err != nil {
		return err
	}
	t.took += time.Since(woken)
	t.printf("")
	t.printf("alice continues (SIGCONT). After %s her context is cancelled. The cause:", ms(time.Since(woken)))
	t.printf("    %s", m.Text)
	if !m.Lost {
		t.miss("alice's context ended, but not because of the lost lock: %s", m.Text)
	}
	if m, err = t.alice.next(ctx); err != nil {
		return err
	}
	if m.Kind == refused {
		t.printf("She ignores that and writes with her old token %d.", t.aliceToken)
		t.printf("The ledger refuses: it has seen %d.", m.Token)
	} else {
		t.miss("the ledger accepted alice's write after she had lost the lock")
	}
	if m, err = t.alice.expect(ctx, unlocked); err != nil {
		return err
	}
	if m.Lost {
		t.printf("She calls Unlock and is told: ErrLost. bob still has his lock.")
	} else {
		t.miss("alice's Unlock did not return ErrLost but %q", m.Text)
	}
	return nil
}

// finish lets bob unlock, which shows that he still had the lock. It then checks that the
// ledger has one row, by bob.
func (t *takeover) finish(ctx context.Context) error {
	t.bob.send(wordFinish)
	m, err := t.bob.expect(ctx, unlocked)
	if err != nil {
		return err
	}
	if m.Text != "" {
		t.miss("bob's Unlock failed: %s", m.Text)
	}
	rows, last, err := t.shop.ledgerRows(ctx)
	if err != nil {
		return err
	}
	t.sold = int(rows)
	if rows != 1 || last != "bob" {
		t.miss("the ledger has %d rows, the last by %q; want one, by bob", rows, last)
	}
	return nil
}

// ms formats a short duration.
func ms(d time.Duration) string {
	if d < time.Millisecond {
		return "less than 1 ms"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
