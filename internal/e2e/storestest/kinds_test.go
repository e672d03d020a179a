package storestest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
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

func semaphoreDo(p *pair) {
	p.does("semaphore", p.ours.Semaphore("permits do", 1), p.theirs.Semaphore("permits do", 1).TryAcquire)
}
