package demo

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// attempts is how often the race without a lock may run: nearly every race oversells, but not
// each.
const attempts = 3

// raceLease is the TTL of the buyers' locks. A buyer holds the lock for milliseconds, so the
// TTL matters only if a process of buyers crashes.
const raceLease = 10 * time.Second

// withoutLock shows that a shop without a lock sells what it does not have.
func (d *demo) withoutLock(ctx context.Context) (result, error) {
	d.heading("Round 1: without a lock")
	d.printf("Each buyer reads the stock, asks the payment provider (a few ms), and writes stock - 1.")
	r := result{round: "1  without a lock", verdict: "oversold, as it must"}
	for try := 1; ; try++ {
		o, err := d.race(ctx, "round 1", false)
		if err != nil {
			return r, err
		}
		r.buyers, r.items, r.sold, r.took = d.Buyers, d.Items, len(o.tokens), o.took
		d.printf("%d sales of %d items, and the stock still says %d.", r.sold, r.items, o.stock)
		if r.oversold() > 0 {
			d.printf("Many buyers read the same stock before anyone had written it back.")
			return r, nil
		}
		if try == attempts {
			r.miss("without a lock nothing was oversold in %d attempts", attempts)
			return r, nil
		}
		d.printf("This time nobody was unlucky. Once more.")
	}
}

// withLock shows that with a lock the shop sells exactly what it has.
func (d *demo) withLock(ctx context.Context) (result, error) {
	d.heading("Round 2: with a lock")
	d.printf("The same buyers, but first each one takes the lock: locker.Lock(ctx, %q).", lockName)
	o, err := d.race(ctx, "round 2", !d.unlocked)
	r := result{round: "2  with a lock", buyers: d.Buyers, items: d.Items, sold: len(o.tokens), took: o.took, verdict: "exact"}
	if err != nil {
		return r, err
	}
	d.printf("%d sales of %d items, and the stock says %d. %d buyers were told: sold out.", r.sold, r.items, o.stock, o.soldOut)
	o.check(&r)
	if len(r.missed) == 0 {
		d.printf("Each lock comes with a fencing token, a number that only rises.")
		d.printf("It rose with every sale: from %d to %d.", o.tokens[0], o.tokens[len(o.tokens)-1])
	}
	return r, nil
}

// outcome is the result of a race.
type outcome struct {
	tokens  []uint64 // of the sales, in their order
	soldOut int
	least   int64 // the smallest stock that a buyer saw
	stock   int64 // what is left in Redis
	took    time.Duration
}

// check adds to r what must not happen in a race with a lock.
func (o outcome) check(r *result) {
	if r.sold != r.items {
		r.miss("with a lock %d of %d items were sold", r.sold, r.items)
	}
	if o.stock != 0 {
		r.miss("with a lock the stock ended at %d, not 0", o.stock)
	}
	if o.least < 0 {
		r.miss("with a lock a buyer saw a stock of %d", o.least)
	}
	for i := 1; i < len(o.tokens); i++ {
		if o.tokens[i] <= o.tokens[i-1] {
			r.miss("sale %d has fencing token %d, which is not larger than the %d before it", i+1, o.tokens[i], o.tokens[i-1])
			return
		}
	}
}

// race runs all buyers once and returns the result. The parameter what is the name of the
// phase.
func (d *demo) race(ctx context.Context, what string, locked bool) (o outcome, err error) {
	err = d.phase(ctx, what, func(ctx context.Context) error {
		if err := d.shop.sweep(ctx); err != nil {
			return err
		}
		if err := d.shop.setStock(ctx, int64(d.Items)); err != nil {
			return err
		}
		started, err := d.startWorkers(ctx, locked)
		defer started.end()
		if err != nil {
			return err
		}
		if o, err = d.follow(ctx, started); err != nil {
			return err
		}
		if o.tokens, err = d.shop.sales(ctx); err != nil {
			return err
		}
		o.stock, err = d.shop.stock(ctx)
		return err
	})
	return o, err
}

// workers are the processes of a race.
type workers []*process

func (w workers) end() {
	for _, p := range w {
		p.cancel() // all of them at once, then wait for each
	}
	for _, p := range w {
		p.end()
	}
}

// startWorkers starts the processes and returns when all of them are ready. The workers
// have to be ended even if there is an error.
func (d *demo) startWorkers(ctx context.Context, locked bool) (workers, error) {
	var w workers
	for i := range d.Processes {
		buyers := (d.Buyers + i) / d.Processes // these add up to d.Buyers
		p, err := d.start(ctx, job{
			Role: roleBuyers, Name: fmt.Sprintf("shop process %d", i+1),
			Buyers: buyers, Locked: locked, Lease: raceLease,
		})
		if err != nil {
			return w, err
		}
		w = append(w, p)
		d.status("starting process %d of %d", i+1, d.Processes)
	}
	for _, p := range w {
		if _, err := p.expect(ctx, ready); err != nil {
			return w, err
		}
	}
	return w, nil
}

// follow starts the race and counts the messages until every process is done.
func (d *demo) follow(ctx context.Context, w workers) (outcome, error) {
	started := time.Now()
	for _, p := range w {
		p.send(wordGo)
	}
	news, stop := w.merge(ctx)
	defer stop()
	o := outcome{least: int64(d.Items)}
	sales, left := 0, len(w)
	for left > 0 {
		n, ok := <-news
		if !ok {
			return o, context.Cause(ctx)
		}
		if n.err != nil {
			return o, n.err
		}
		switch n.Kind {
		case sold:
			sales++
			o.least = min(o.least, n.Stock)
		case soldOut:
			o.soldOut++
			o.least = min(o.least, n.Stock)
		case done:
			left--
		}
		d.status("%d sold, %d told \"sold out\", of %d buyers", sales, o.soldOut, d.Buyers)
	}
	o.took = time.Since(started)
	return o, nil
}

// news is a message of one of the workers, or the error after which it sends no more.
type news struct {
	message
	err error
}

// merge returns a channel with the messages of all processes, each until it is done or has
// failed. The channel is closed when there are no more. The function that it returns ends
// this, and waits until the channel is closed.
func (w workers) merge(ctx context.Context) (<-chan news, func()) {
	ctx, cancel := context.WithCancel(ctx)
	all := make(chan news)
	var wg sync.WaitGroup
	for _, p := range w {
		wg.Go(func() { p.forward(ctx, all) })
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		wg.Wait()
		close(all)
	}()
	return all, func() {
		cancel()
		<-closed
	}
}

func (p *process) forward(ctx context.Context, all chan<- news) {
	for {
		m, err := p.next(ctx)
		select {
		case all <- news{m, err}:
		case <-ctx.Done():
			return
		}
		if err != nil || m.Kind == done {
			return
		}
	}
}
