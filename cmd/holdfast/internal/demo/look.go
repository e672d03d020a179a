package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// samples is how often the lease of a held lock is read if the output is not a terminal.
const samples = 6

// look shows alice's lock unchanged in Redis, and how its lease is renewed. It does not read
// the lock in another store.
func (t *takeover) look(ctx context.Context) error {
	if t.Locks.URL != "" {
		t.printf("She keeps it for %s, and renews it meanwhile.", t.Look)
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
	t.printf("")
	t.printf("This is her lock in Redis:")
	t.printf("    HGETALL %s", lock)
	for field := range slices.Chunk(fields, 2) {
		t.printf("        %s = %s      (alice's client : lock number = hold count)", field[0], field[1])
	}
	t.printf("    PTTL %s", lock)
	t.printf("        %d      (ms until it ends by itself)", left.Milliseconds())
	if len(fields) == 0 || left <= 0 {
		t.miss("the held lock was not to be seen in Redis")
	}
	seen, err := t.watchLease(ctx)
	if err != nil {
		return err
	}
	if len(seen) > 0 {
		t.printf("    and for the next %s: %s", t.Look, strings.Join(seen, ", "))
	}
	t.printf("")
	return nil
}

// watchLease lets alice keep the lock for the time Look. Meanwhile it reads the lease in Redis
// again and again, and returns what it read. On a terminal it returns only the renewals,
// because the status line shows all of it.
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
