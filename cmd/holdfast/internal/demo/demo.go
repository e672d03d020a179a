package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/standin"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// FailedError is the error of a demo that ran to its end, but did not show what it claims.
type FailedError struct {
	Claims []string // one sentence each
}

// Error names the claims.
func (e *FailedError) Error() string {
	return "the demo failed: " + strings.Join(e.Claims, "; ")
}

// Run runs the demo and returns nil if everything that it claims happened. It
// returns a *FailedError if something did not, and another error if the demo
// could not run or ctx ended. It leaves no process and no key behind.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.Check(); err != nil {
		return err
	}
	if o.lease == 0 {
		o.lease = defaultLease
		if o.Locks.URL != "" {
			o.lease = leaseElsewhere
		}
	}
	whole := o.Timeout + o.Look
	ctx, cancel := context.WithTimeoutCause(ctx, whole, fmt.Errorf("the demo took longer than %s", whole))
	defer cancel()

	store, shown := o.Access, redisurl.Redacted(o.Access.URL)
	if store.URL == "" {
		server, err := standin.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		store, shown = access.Access{URL: server.URL()}, server.Addr()+" ("+standin.Banner+")"
	}
	if err := CheckURL(store.URL); err != nil {
		return err
	}
	shop, err := openShop(ctx, store, newKeys(strings.ToLower(rand.Text()[:6])))
	if err != nil {
		return err
	}
	defer shop.close()
	d := &demo{Options: o, access: store, shop: shop, screen: screen{out: o.Out, live: o.Terminal, color: o.Color}}
	defer func() { err = errors.Join(err, d.sweep(ctx)) }()
	d.introduce(shown)
	if err := d.run(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx) // the end of ctx is the cause of every error
		}
		return err
	}
	return nil
}

// demo is one run.
type demo struct {
	Options
	screen
	access access.Access
	log    bool // set by the pages: the locks have an event log
	shop   *shop
	used   keyring
}

// keyring collects the keys that the library uses.
type keyring struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (k *keyring) add(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = make(map[string]bool)
	}
	k.keys[key] = true
}

func (k *keyring) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.keys))
}

// run runs all rounds, prints their results, and judges them.
func (d *demo) run(ctx context.Context) error {
	var results []result
	for _, round := range []func(context.Context) (result, error){d.withoutLock, d.withLock, d.pausedHolder} {
		r, err := round(ctx)
		if err != nil {
			d.wipe()
			return err
		}
		results = append(results, r)
	}
	d.heading("Result")
	d.print(table(results, d.paint))
	return d.judge(results)
}

// judge returns a *FailedError if something that was claimed did not happen.
func (d *demo) judge(results []result) error {
	var missed []string
	for _, r := range results {
		missed = append(missed, r.missed...)
	}
	if len(missed) > 0 {
		return &FailedError{Claims: missed}
	}
	d.print("\nEverything happened as claimed.\n")
	d.print("A lock alone does not stop a holder that was paused. A fencing token does: check it where you write.\n")
	return nil
}

// sweep deletes what the demo stored. It does so even if ctx has ended.
func (d *demo) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := d.shop.sweep(ctx, d.used.all()...); err != nil {
		return fmt.Errorf("delete the demo's keys, which begin with %q: %w", d.shop.keys.Prefix, err)
	}
	return nil
}

// phase runs a part of the demo within a third of Timeout. If that time is over, or ctx has
// ended, it returns that as the error, whatever failed.
func (d *demo) phase(ctx context.Context, what string, do func(context.Context) error) error {
	limit := d.Timeout / 3
	tooLong := fmt.Errorf("%s took longer than %s; a longer timeout gives it more", what, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, tooLong)
	defer cancel()
	err := do(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded): // noticed before ctx ended
		return tooLong
	}
	return err
}

// introduce says what is going to happen, and how to watch it.
func (d *demo) introduce(redis string) {
	lock := d.shop.keys.lock()
	d.print(d.paint(bold, "Holdfast demo") + "\n")
	d.printf("A shop has %d items. %d buyers in %d processes want one each, all at the same time.", d.Items, d.Buyers, d.Processes)
	if d.Locks.URL != "" {
		d.introduceLocks()
		return
	}
	d.printf("Redis: %s", redis)
	d.printf("")
	cli := redisCLI(d.access)
	d.printf("Look yourself, in another terminal (the lock is held still for %s in round 3):", d.Look)
	d.printf("  %s HGETALL %s", cli, lock)
	d.printf("  %s PTTL %s", cli, lock)
	d.printf("  %s SUBSCRIBE 'redisson_lock__channel:{%s}'", cli, lock)
	if d.Access.URL != "" { // the stand-in does not know it
		d.printf("  %s MONITOR      (not on a busy server)", cli)
	}
}
