// Package demo shows what a distributed lock is for, to someone who has never used one. A
// shop without a lock sells more items than it has. With a lock it does not. Then a process
// that has lost its lock tries to write nevertheless.
//
// A distributed lock is for several processes. The buyers and holders of the demo are therefore
// separate processes of the same program. Run runs the demo and checks its results. Serve
// serves the dashboard with a page of scenes, for people who want to try locks themselves. Work
// runs in each of the processes.
package demo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/retry"
)

// Run runs the demo, with valid options. The demo makes claims, for example that a shop with a
// lock sells exactly what it has. Run returns nil if all claims were true. It returns an error
// if a claim was false, if the demo could not run, or if ctx ended. It leaves no process and no
// key behind.
func Run(ctx context.Context, o Options) (err error) {
	k, lease := keys{"holdfast-demo:" + strings.ToLower(rand.Text()[:6]) + ":", lockName}, defaultLease
	if o.Locks.URL != "" {
		k, lease = keys{"", sharedName}, leaseElsewhere // the shop is in a stand-in that has no other keys
	}
	o.lease = cmp.Or(o.lease, lease)
	whole := o.Timeout + o.Look
	ctx, cancel := context.WithTimeoutCause(ctx, whole, fmt.Errorf("the demo took longer than %s; give it more time with a longer --timeout", whole))
	defer cancel()

	s, err := openServer(ctx, o.Access, k)
	if err != nil {
		return err
	}
	defer s.close()
	d := &demo{Options: o, server: s, shop: s.shop}
	defer func() { err = errors.Join(err, d.sweep(ctx)) }()
	d.introduce()
	return d.run(ctx)
}

// demo is one run of the demo on the terminal, or one sale of the page.
type demo struct {
	Options
	server    *server
	shop      *shop
	log       bool       // record the events of the locks in the event log; only the page sets log
	used      sync.Map   // the keys that the processes have reported
	processes []*process // the processes of the present round
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
				err = context.Cause(ctx) // after the end of ctx, err is only a consequence of that end
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
		return fmt.Errorf("delete the demo's keys, as %q: %w", d.shop.keys.lock(), err)
	}
	return nil
}

// outcome is what happened in a round of the terminal, or in a sale of the page.
type outcome struct {
	Buyers  int   `json:"buyers"`
	Items   int   `json:"items"`
	Sold    int   `json:"sold"`
	SoldOut int   `json:"told_sold_out"`
	Stock   int64 `json:"stock"` // the stock that Redis has at the end
	Took    ms    `json:"took_ms"`

	tokens []uint64 // the fencing tokens of the sales, in the order of the sales
	least  int64    // the smallest stock that a buyer saw
}

// oversold returns how many items were sold that did not exist.
func (o outcome) oversold() int { return max(o.Sold-o.Items, 0) }

// result is one row of the table.
type result struct {
	outcome
	round   string
	verdict string
	missed  []string // the claims of the demo that were false
}

// miss records a claim of the demo that was false.
func (r *result) miss(format string, args ...any) {
	r.missed = append(r.missed, fmt.Sprintf(format, args...))
}

// table renders the results, one line each. The function `paint` adds the colors to a verdict.
func table(rows []result, paint func(style, string) string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%-17s  %6s  %5s  %5s  %8s  %7s  %s\n", "round", "buyers", "items", "sold", "oversold", "time", "verdict")
	for _, r := range rows {
		verdict := paint(green, r.verdict)
		if len(r.missed) > 0 {
			verdict = paint(red, "FAILED")
		}
		took := fmt.Sprintf("%.2f s", float64(r.Took)/1000)
		fmt.Fprintf(&t, "%-17s  %6d  %5d  %5d  %8d  %7s  %s\n", r.round, r.Buyers, r.Items, r.Sold, r.oversold(), took, verdict)
	}
	return t.String()
}
