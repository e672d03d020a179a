package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// samples is how often the lease of a held lock is read if the output is not a terminal.
const samples = 6

// look shows alice's lock unchanged in Redis, and how its lease is renewed.
func (t *takeover) look(ctx context.Context) error {
	if t.Locks.URL != "" {
		return t.lookElsewhere(ctx)
	}
	fields, left, err := t.shop.lockRecord(ctx)
	if err != nil {
		return err
	}
	lock := t.shop.keys.lock()
	t.printf("")
	t.printf("This is her lock in Redis:")
	t.printf("    HGETALL %s", lock)
	for _, owner := range slices.Sorted(maps.Keys(fields)) {
		t.printf("        %s = %s      (alice's client : lock number = hold count)", owner, fields[owner])
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

// lostEarly returns the error for a message or the end of alice while she should hold the
// lock.
func (t *takeover) lostEarly(m message, ok bool) error {
	return errors.Join(t.alice.verify(m, ok), errors.New("alice lost her lock although she was not paused"))
}

// watchLease reads the lease again and again for the time Look, and returns what it read. On
// a terminal it returns only the renewals, because the status line shows all of it.
func (t *takeover) watchLease(ctx context.Context) ([]string, error) {
	every := t.Look / samples
	if t.live {
		every = min(every, 100*time.Millisecond)
	}
	if every <= 0 {
		return nil, nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seen []string
	last := t.lease
	for end := time.Now().Add(t.Look); time.Now().Before(end); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case m, ok := <-t.alice.messages:
			return nil, t.lostEarly(m, ok)
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
		case !t.live:
			seen = append(seen, fmt.Sprint(left.Milliseconds()))
		}
		last = left
	}
	return seen, nil
}
