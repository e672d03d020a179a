package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// Run runs the demo, with valid options, and returns nil if everything that it claims
// happened. It returns an error if something did not, or if the demo could not run or ctx
// ended. It leaves no process and no key behind.
func Run(ctx context.Context, o Options) (err error) {
	if o.lease == 0 {
		o.lease = defaultLease
		if o.Locks.URL != "" {
			o.lease = leaseElsewhere
		}
	}
	whole := o.Timeout + o.Look
	ctx, cancel := context.WithTimeoutCause(ctx, whole, fmt.Errorf("the demo took longer than %s; a longer timeout gives it more", whole))
	defer cancel()

	s, err := openServer(ctx, o.Access, keys{Prefix: "holdfast-demo:" + strings.ToLower(rand.Text()[:6]) + ":"})
	if err != nil {
		return err
	}
	defer s.close()
	d := &demo{Options: o, server: s, shop: s.shop}
	defer func() { err = errors.Join(err, d.sweep(ctx)) }()
	d.introduce()
	return d.run(ctx)
}

// demo is one run.
type demo struct {
	Options
	server    *server
	shop      *shop
	log       bool       // set by the pages: the locks have an event log
	used      sync.Map   // the keys that the processes use
	processes []*process // of the round
	dirty     bool       // the last line of the terminal is a status line, which must be erased
}

// run runs all rounds, prints their results, and judges them.
func (d *demo) run(ctx context.Context) error {
	var results []result
	var missed []string
	for n, round := range []func(context.Context) (result, error){d.withoutLock, d.withLock, d.pausedHolder} {
		r, err := round(ctx)
		if err != nil {
			d.wipe()
			if retry.Over(ctx) {
				err = context.Cause(ctx) // the end of ctx is the cause of every error
			}
			return fmt.Errorf("round %d: %w", n+1, err)
		}
		results, missed = append(results, r), append(missed, r.missed...)
	}
	d.heading("Result")
	d.print(table(results, d.paint))
	if len(missed) > 0 {
		return fmt.Errorf("the demo failed: %s", strings.Join(missed, "; "))
	}
	d.print("\nEverything happened as claimed.\n")
	d.print("A lock alone does not stop a holder that was paused. A fencing token does: check it where you write.\n")
	return nil
}

// sweep deletes what the demo stored. It does so even if ctx has ended.
func (d *demo) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var used []string
	d.used.Range(func(key, _ any) bool {
		used = append(used, key.(string))
		return true
	})
	if err := d.shop.sweep(ctx, used...); err != nil {
		return fmt.Errorf("delete the demo's keys, which begin with %q: %w", d.shop.keys.Prefix, err)
	}
	return nil
}
