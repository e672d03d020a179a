package storestest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/must"
)

func fairOrder(p *pair) {
	first, err := p.ours.FairMutex("fair").TryLock(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	const waiters = 3
	order := make(chan int, waiters)
	ends := make([]func() *holdfast.Lock, waiters)
	for i := range waiters {
		ends[i] = p.begin("fair", func(ctx context.Context) (*holdfast.Lock, error) {
			k, err := p.theirs.FairMutex("fair").Lock(ctx)
			order <- i
			return k, err
		})
	}
	must.Unlock(p, first)
	for i := range waiters {
		if got := <-order; got != i {
			p.Errorf("got waiter %d, want %d", got, i)
		}
		must.Unlock(p, ends[i]())
	}
}

func fairDo(p *pair) {
	p.does("fair mutex", p.ours.FairMutex("fair do"), p.theirs.FairMutex("fair do").TryLock)
}

func readWrite(p *pair) {
	ctx := p.Context()
	ours, theirs := p.ours.RWMutex("rw"), p.theirs.RWMutex("rw")
	one, err := ours.Read.TryLock(ctx)
	if err != nil {
		p.Fatal(err)
	}
	two, err := theirs.Read.TryLock(ctx)
	if err != nil {
		p.Fatalf("a second reader: %v", err)
	}
	_, err = theirs.Write.TryLock(ctx)
	p.busy("a writer beside readers", nil, err)
	must.Unlock(p, one)
	_, err = ours.Write.TryLock(ctx)
	p.busy("a writer beside a reader", nil, err)
	must.Unlock(p, two)
	writer, err := ours.Write.TryLock(ctx)
	if err != nil {
		p.Fatalf("a writer after the readers: %v", err)
	}
	_, err = theirs.Read.TryLock(ctx)
	p.busy("a reader beside a writer", nil, err)
	must.Unlock(p, writer)
	k, err := theirs.Read.TryLock(ctx)
	p.got("a reader after the writer", k, err)
}

func readWriteWaiting(p *pair) {
	ours, theirs := p.ours.RWMutex("rw wait"), p.theirs.RWMutex("rw wait")
	for _, side := range []struct{ first, next *holdfast.Mutex }{
		{ours.Read, theirs.Write},
		{ours.Write, theirs.Read},
		{ours.Write, theirs.Write},
	} {
		first, err := side.first.Lock(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		end := p.begin("rw wait", func(ctx context.Context) (*holdfast.Lock, error) { return side.next.Lock(ctx) })
		must.Unlock(p, first)
		must.Unlock(p, end())
	}
}

func readWriteDo(p *pair) {
	ours, theirs := p.ours.RWMutex("rw do"), p.theirs.RWMutex("rw do")
	p.does("reader", ours.Read, theirs.Write.TryLock)
	p.does("writer", ours.Write, theirs.Read.TryLock)
}

// A writer may read as well, and keeps what it reads when it writes no more. A reader may
// not write.
func readerBesideItsOwn(p *pair) {
	ctx := holdfast.WithOwner(p.Context())
	ours, theirs := p.ours.RWMutex("downgrade"), p.theirs.RWMutex("downgrade")
	writer, err := ours.Write.TryLock(ctx)
	if err != nil {
		p.Fatal(err)
	}
	reader, err := ours.Read.TryLock(ctx)
	if err != nil {
		p.Fatalf("the read side of its own writer: %v", err)
	}
	_, err = theirs.Read.TryLock(p.Context())
	p.busy("a reader of another beside both sides", nil, err)
	must.Unlock(p, writer)
	k, err := theirs.Read.TryLock(p.Context())
	p.got("a reader of another beside the read side", k, err)
	_, err = theirs.Write.TryLock(p.Context())
	p.busy("a writer of another beside the read side", nil, err)
	if _, err := ours.Write.TryLock(ctx); !errors.Is(err, holdfast.ErrDeadlock) {
		p.Errorf("the write side of its own reader: got error %v, want ErrDeadlock", err)
	}
	must.Unlock(p, reader)
	k, err = theirs.Write.TryLock(p.Context())
	p.got("a writer of another after both sides", k, err)
}

func semaphore(p *pair) {
	ctx := p.Context()
	ours, theirs := p.ours.Semaphore("permits", 2), p.theirs.Semaphore("permits", 2)
	one, err := ours.TryAcquire(ctx)
	if err != nil {
		p.Fatal(err)
	}
	two, err := theirs.TryAcquire(ctx)
	if err != nil {
		p.Fatalf("the second permit: %v", err)
	}
	_, err = theirs.TryAcquire(ctx)
	p.busy("a third of two permits", nil, err)
	must.Unlock(p, one)
	k, err := theirs.TryAcquire(ctx)
	p.got("a permit that is free again", k, err)
	must.Unlock(p, two)
}

func semaphoreWaiting(p *pair) {
	ours, theirs := p.ours.Semaphore("permits wait", 1), p.theirs.Semaphore("permits wait", 1)
	first, err := ours.Acquire(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	end := p.begin("permits wait", func(ctx context.Context) (*holdfast.Lock, error) { return theirs.Acquire(ctx) })
	must.Unlock(p, first)
	must.Unlock(p, end())
}

func semaphoreDo(p *pair) {
	p.does("semaphore", p.ours.Semaphore("permits do", 1), p.theirs.Semaphore("permits do", 1).TryAcquire)
}

// A client may change the number of permits, which all clients count.
func resize(p *pair) {
	ctx := p.Context()
	ours, theirs := p.ours.Semaphore("resize", 1), p.theirs.Semaphore("resize", 1)
	counted := func(what string, wantAll, wantFree int) {
		p.Helper()
		if all, free, err := theirs.Permits(ctx); err != nil || all != wantAll || free != wantFree {
			p.Errorf("Permits %s: got %d, %d free, error %v, want %d, %d free", what, all, free, err, wantAll, wantFree)
		}
	}
	to := func(permits int) {
		p.Helper()
		if err := ours.Resize(ctx, permits); err != nil {
			p.Fatalf("Resize to %d: %v", permits, err)
		}
	}
	counted("of a new name", 0, 0)
	one, err := ours.TryAcquire(ctx)
	if err != nil {
		p.Fatal(err)
	}
	counted("while one is held", 1, 0)
	end := p.begin("resize", func(ctx context.Context) (*holdfast.Lock, error) { return theirs.Acquire(ctx) })
	to(2)
	two := end()
	to(1)
	counted("of fewer than are held", 1, -1)
	must.Unlock(p, one)
	_, err = ours.TryAcquire(ctx)
	p.busy("a second of one permit", nil, err)
	must.Unlock(p, two)
	counted("after all", 1, 1)
}

func latch(p *pair) {
	ctx := await.Context(p, 20*time.Second)
	ours, theirs := p.ours.CountDownLatch("latch"), p.theirs.CountDownLatch("latch")
	counted := func(want int64) {
		p.Helper()
		if n, err := theirs.Count(ctx); err != nil || n != want {
			p.Errorf("Count: got %d, error %v, want %d", n, err, want)
		}
	}
	if got := ours.Name(); got != "latch" {
		p.Errorf("Name: got %q", got)
	}
	counted(0)
	if set, err := ours.TrySet(ctx, 2); err != nil || !set {
		p.Fatalf("TrySet: got %v, error %v", set, err)
	}
	if set, err := theirs.TrySet(ctx, 5); err != nil || set {
		p.Errorf("TrySet of what is set: got %v, error %v, want that it changes nothing", set, err)
	}
	counted(2)
	opened := make(chan error, 1)
	go func() { opened <- theirs.Wait(ctx) }()
	for left := range 2 {
		if err := ours.CountDown(ctx); err != nil {
			p.Fatal(err)
		}
		counted(int64(1 - left))
	}
	if err := <-opened; err != nil {
		p.Errorf("Wait: %v", err)
	}
}
