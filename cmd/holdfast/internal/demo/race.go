package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/plural"
)

// attempts is the largest number of races without a lock. Nearly every such race oversells, but
// not each.
const attempts = 3

// raceLease is the TTL of the buyers' locks. A buyer holds the lock for milliseconds, so the
// TTL matters only if a process of buyers crashes.
const raceLease = 10 * time.Second

// withoutLock shows that a shop without a lock sells what it does not have.
func (d *demo) withoutLock(ctx context.Context) (result, error) {
	d.heading("Round 1: without a lock")
	d.printf("Each buyer reads the stock, asks the payment provider (a few ms), and writes stock - 1.")
	r := result{round: "1  without a lock", verdict: "oversold, as it must"}
	for range attempts {
		var err error
		if r.outcome, err = d.race(ctx, false); err != nil {
			return r, err
		}
		d.printf("%s of %s, and the stock still says %d.", plural.Count(r.Sold, "sale"), plural.Count(r.Items, "item"), r.Stock)
		if r.oversold() > 0 {
			d.printf("Many buyers read the same stock before the first of them had written the new stock.")
			return r, nil
		}
		d.printf("This time the buyers did not disturb each other.")
	}
	r.miss("without a lock the shop sold too many items in none of %d attempts", attempts)
	return r, nil
}

// withLock shows that with a lock the shop sells exactly what it has.
func (d *demo) withLock(ctx context.Context) (result, error) {
	d.heading("Round 2: with a lock")
	d.printf("The same buyers, but first each one takes the lock: locker.Lock(ctx, %q).", lockName)
	o, err := d.race(ctx, !d.unlocked)
	r := result{round: "2  with a lock", verdict: "exact", outcome: o}
	if err != nil {
		return r, err
	}
	d.printf("%s of %s, and the stock says %d. %s got the answer: sold out.", plural.Count(r.Sold, "sale"), plural.Count(r.Items, "item"), r.Stock, plural.Count(r.SoldOut, "buyer"))
	r.checkLocked()
	if len(r.missed) == 0 {
		d.printf("Each lock gets a fencing token, a number that only rises.")
		d.printf("The token rose with every sale: from %d to %d.", r.tokens[0], r.tokens[len(r.tokens)-1])
	}
	return r, nil
}

// checkLocked records the results that a race with a lock must not have.
func (r *result) checkLocked() {
	if r.Sold != r.Items {
		r.miss("with a lock the shop sold %d of %s", r.Sold, plural.Count(r.Items, "item"))
	}
	if r.Stock != 0 {
		r.miss("with a lock the stock ended at %d, not 0", r.Stock)
	}
	if r.least < 0 {
		r.miss("with a lock a buyer saw a stock of %d", r.least)
	}
	for i := 1; i < len(r.tokens); i++ {
		if r.tokens[i] <= r.tokens[i-1] {
			r.miss("sale %d has fencing token %d, which is not larger than the %d before it", i+1, r.tokens[i], r.tokens[i-1])
			return
		}
	}
}

// race runs all buyers once and returns the result.
func (d *demo) race(ctx context.Context, locked bool) (o outcome, err error) {
	o = outcome{Buyers: d.Buyers, Items: d.Items, least: int64(d.Items)}
	if err := errors.Join(d.shop.sweep(ctx), d.shop.setStock(ctx, int64(d.Items))); err != nil {
		return o, err
	}
	defer d.endProcesses()
	heard := make(chan message)
	for i := range d.Processes {
		buyers := (d.Buyers + i) / d.Processes // the sum over all processes is d.Buyers
		j := job{Name: fmt.Sprintf("shop process %d", i+1), Buyers: buyers, Locked: locked, Lease: raceLease}
		if _, err := d.start(ctx, j, heard); err != nil {
			return o, err
		}
		d.status("starting process %d of %d", i+1, d.Processes)
	}
	if err := d.follow(ctx, heard, &o); err != nil {
		return o, err
	}
	if o.tokens, err = d.shop.sales(ctx); err != nil {
		return o, err
	}
	o.Sold = len(o.tokens)
	o.Stock, err = d.shop.stock(ctx)
	return o, err
}

// follow starts the race when all processes are ready. It counts their messages in the
// outcome o until every process is done.
func (d *demo) follow(ctx context.Context, heard <-chan message, o *outcome) error {
	var started time.Time
	for starting, running := d.Processes, d.Processes; running > 0; {
		var m message
		select {
		case m = <-heard:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch m.Kind {
		case ready:
			if starting--; starting > 0 {
				continue
			}
			started = time.Now()
			for _, p := range d.processes {
				p.send(wordGo)
			}
		case sold:
			o.Sold++
			o.least = min(o.least, m.Stock)
		case soldOut:
			o.SoldOut++
			o.least = min(o.least, m.Stock)
		case done:
			running--
		default: // failed or died
			return errors.New(m.Text)
		}
		d.status("of %[3]d buyers, %[1]d have an item, and %[2]d got the answer \"sold out\"", o.Sold, o.SoldOut, o.Buyers)
	}
	o.Took = inMS(time.Since(started))
	return nil
}
