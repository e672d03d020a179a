package drivertest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// writer returns a new claim for the write side of the lock with the name p.Name.
func (p *probe) writer() driver.Claim {
	c := p.Claim()
	c.ReadWrite = true
	return c
}

// readerBeside returns a new claim for the read side. The claim has the same caller as the
// writer w, so it must be granted while w holds.
func (p *probe) readerBeside(w driver.Claim) driver.Claim {
	c := p.Reader()
	c.Beside = w.Owner
	return c
}

func readersOverlap(p *probe) {
	a, b, c := p.Reader(), p.Reader(), p.Reader()
	var last uint64
	for _, r := range []driver.Claim{a, b, c} {
		o := p.MustGrant(r, "by a reader among readers")
		if p.has(fencing) && o.Token <= last {
			p.Errorf("Try of a reader: got token %d, want more than %d, the token before", o.Token, last)
		}
		last = o.Token
	}
	for _, r := range []driver.Claim{a, b, c} {
		p.MustGrant(r, "repeated by a reader")
		p.MustRenew(r, "of a reader among readers")
	}
	p.MustRelease(b, "of a reader among readers, which tried twice")
	p.MustNotRelease(b, "of a reader, repeated")
	p.MustNotRenew(b, "of a reader that has left")
	p.MustRenew(a, "of a reader, after another reader has left")
	p.MustRenew(c, "of a reader, after another reader has left")
	p.MustGrant(p.Reader(), "by a reader, after another reader has left")
}

func writerExcludesReaders(p *probe) {
	w, r, other := p.writer(), p.Reader(), p.writer()
	p.MustGrant(w, "by a writer of a free name")
	o := p.MustRefuse(r, "by a reader while a writer holds")
	p.mustTurnAway(other, "by a writer while a writer holds")
	p.mustNotBeHeld(r, o, "of a refused reader")
	p.MustGrant(w, "repeated by the writer")
	p.MustRenew(w, "of the writer")
	p.MustRelease(w, "of the writer")
	p.MustGrant(r, "by a reader after the writer")
}

func readersExcludeWriters(p *probe) {
	a, b, w := p.Reader(), p.Reader(), p.writer()
	p.MustGrant(a, "by a reader of a free name")
	p.MustGrant(b, "by a second reader")
	p.MustRefuse(w, "by a writer while readers hold")
	p.MustRelease(a, "of the first reader")
	o := p.MustRefuse(w, "by a writer while one reader is left")
	p.mustNotBeHeld(w, o, "of a refused writer")
	p.MustRelease(b, "of the last reader")
	p.MustGrant(w, "by a writer after the last reader")
	p.mustTurnAway(p.Reader(), "by a reader while a writer holds")
}

// readersExpireOneByOne lets one of several readers die. The other readers must keep their
// holds, and the dead reader must exclude no claim.
func readersExpireOneByOne(p *probe) {
	alive, dead, w := p.Reader(), p.unrenewed(p.Reader()), p.writer()
	p.MustGrant(alive, "by a reader of a free name")
	p.MustGrant(dead, "by a reader with a short lease")
	p.afterLapse(func() {
		p.MustRenew(alive, "of a reader while another reader is dead")
		p.MustRefuse(w, "by a writer while a reader lives")
	})
	p.MustNotRenew(dead, "of a reader whose lease has ended, while another lives")
	p.MustNotRelease(dead, "of a reader whose lease has ended, while another lives")
	p.MustRefuse(w, "by a writer after a dead reader was released")
	p.MustRelease(alive, "of the last live reader")
	p.MustGrant(w, "by a writer when the last live reader has left")
	p.MustRelease(w, "of the writer")

	alive, dead = p.unrenewed(p.Reader()), p.unrenewed(p.Reader())
	p.MustGrant(dead, "by a reader with a short lease")
	start := time.Now()
	p.MustGrant(alive, "by a second reader with a short lease")
	p.afterLapse(func() { p.mustRenewBrief(alive, &start, "of a reader with a short lease") })
	p.MustGrantBy(w, time.Now().Add(p.lapse()), "after the lease of the last reader")
}

// afterLapse returns when a lease of p.short that begins now has ended. Meanwhile it calls the
// function `keep` so often that this function can renew another lease of p.short in time.
func (p *probe) afterLapse(keep func()) {
	p.Helper()
	for end := time.Now().Add(p.lapse()); time.Now().Before(end); {
		pause(p.Ctx, p.short/5)
		keep()
	}
}

func readerIsGrantedBesideItsWriter(p *probe) {
	w, other := p.writer(), p.writer()
	mine, again := p.readerBeside(w), p.readerBeside(w)
	strange, plain := p.readerBeside(other), p.Reader()
	p.MustGrant(w, "by a writer of a free name")
	p.MustGrant(mine, "by a reader beside its own writer")
	p.MustGrant(mine, "repeated beside its own writer")
	p.MustGrant(again, "by a second reader beside its own writer")
	p.MustRefuse(plain, "by a reader while a writer holds beside a reader")
	p.mustTurnAway(strange, "by a reader beside a writer that does not hold")
	p.MustRelease(again, "of a reader beside its writer")
	p.MustRenew(w, "of a writer beside a reader")
	p.MustRenew(mine, "of a reader beside its writer")
	p.MustRefuse(plain, "by a reader after a reader beside the writer has left")

	p.MustRelease(w, "of a writer beside a reader")
	p.MustNotRelease(w, "of a writer beside a reader, repeated")
	p.MustRenew(mine, "of a reader after its writer has left")
	p.mustTurnAway(other, "by a writer, while the old writer still reads (downgrade)")
	p.MustGrant(plain, "by a reader after a downgrade")
	p.MustRelease(plain, "of a reader after a downgrade")
	p.MustRelease(mine, "of the reader of a downgrade")
	p.MustGrant(other, "by a writer after a downgrade and its reader")
	p.mustTurnAway(p.readerBeside(w), "by a reader beside a writer that has left, while another writer holds")
}

func writerOutlivesReaderBesideIt(p *probe) {
	w := p.writer()
	r := p.readerBeside(w)
	p.MustGrant(w, "by a writer of a free name")
	p.MustGrant(r, "by a reader beside its own writer")
	p.MustRelease(r, "of the reader beside its writer")
	p.MustRenew(w, "of a writer after the reader beside it has left")
	p.mustTurnAway(p.Reader(), "by a reader after a reader beside the writer has left")
	p.MustRelease(w, "of the writer")
	p.MustGrant(p.writer(), "by a writer after another writer")
}

func writerReleaseWakesReaders(p *probe) {
	w, a, b := p.writer(), p.Reader(), p.Reader()
	p.MustGrant(w, "by a writer of a free name")
	p.wakes("release of the writer", func() { p.MustRelease(w, "of the writer") }, a, b)
	p.MustGrant(a, "by a woken reader")
	p.MustGrant(b, "by a second woken reader")
}

func downgradeWakesReaders(p *probe) {
	w, a, b := p.writer(), p.Reader(), p.Reader()
	mine := p.readerBeside(w)
	p.MustGrant(w, "by a writer of a free name")
	p.MustGrant(mine, "by a reader beside its own writer")
	p.wakes("release of a writer with a reader beside it", func() { p.MustRelease(w, "of a writer beside a reader") }, a, b)
	p.MustGrant(a, "by a woken reader")
	p.MustGrant(b, "by a second woken reader")
	p.MustRenew(mine, "of the reader of a downgrade")
}

func lastReaderWakesWriter(p *probe) {
	a, b, w := p.Reader(), p.Reader(), p.writer()
	p.MustGrant(a, "by a reader of a free name")
	p.MustGrant(b, "by a second reader")
	p.MustRefuse(w, "by a writer while readers hold")
	p.MustRelease(a, "of the first reader")
	p.wakes("release of the last reader", func() { p.MustRelease(b, "of the last reader") }, w)
	p.MustGrant(w, "by the woken writer")
}

// wakes reports an error if the function `change` does not wake the Waiters of all claims in
// `cs`. It first tries these claims, which must be refused.
func (p *probe) wakes(what string, change func(), cs ...driver.Claim) {
	p.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, c := range cs {
		last := p.MustRefuse(c, "before the "+what)
		w := p.b.Waiter(c)
		defer w.Close()
		wg.Go(func() {
			if err := p.wait(w, last); err != nil {
				p.Errorf("waiting for the %s: %v", what, err)
			}
		})
	}
	pause(p.Ctx, 50*time.Millisecond) // after that, the Waiters usually wait
	change()
	wg.Wait()
}

// readersAndWritersUnderContention counts the holders. While a writer holds, there must be no
// other holder. While a reader holds, there must be no writer.
func readersAndWritersUnderContention(p *probe) {
	const rounds = 15
	var writers, readers atomic.Int32
	var wg sync.WaitGroup
	contend := func(claim func() driver.Claim, mine *atomic.Int32, fits func(writers, readers int32) bool) {
		wg.Go(func() {
			p.contend(2, rounds, func() error {
				return p.within(claim(), func(driver.Outcome) error {
					mine.Add(1)
					defer mine.Add(-1)
					pause(p.Ctx, time.Millisecond) // time for another grant, if the store makes one
					if w, r := writers.Load(), readers.Load(); !fits(w, r) {
						return fmt.Errorf("%d writers and %d readers at once", w, r)
					}
					return nil
				})
			})
		})
	}
	contend(p.writer, &writers, func(w, r int32) bool { return w == 1 && r == 0 })
	contend(p.Reader, &readers, func(w, _ int32) bool { return w == 0 })
	wg.Wait()
}

// within acquires c, calls the function `inside` with the grant, and releases c.
func (p *probe) within(c driver.Claim, inside func(driver.Outcome) error) error {
	o, err := p.acquire(c)
	if err != nil {
		p.Remember(c)
		return fmt.Errorf("acquire: %w", err)
	}
	err = inside(o)
	if rerr := p.b.Release(p.Ctx, c); rerr != nil {
		return fmt.Errorf("release of a held claim: %w", rerr)
	}
	return err
}
