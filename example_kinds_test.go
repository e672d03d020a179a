package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
)

// The waiters for a fair mutex get it in the order in which they came.
func ExampleLocker_FairMutex() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	printer := locker.FairMutex("printer")

	err := printer.Do(ctx, func(_ context.Context, lock *holdfast.Lock) error {
		fmt.Println("printing, held:", lock.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// printing, held: true
	// <nil>
}

// Readers share the page; a writer has it alone. A writer may keep it as a reader.
func ExampleLocker_RWMutex() {
	ctx := holdfast.WithOwner(context.Background())
	locker := holdfast.New(memhold.New(), nil)
	page := locker.RWMutex("page")

	write, err := page.Write.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err := page.Read.Lock(ctx) // downgrade: no one can write in between
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written:", write.Unlock())

	other, err := page.Read.TryLock(context.Background())
	fmt.Println("another reader:", err)
	fmt.Println(other.Unlock())

	_, err = page.Write.Lock(ctx)
	fmt.Println("upgrade:", errors.Is(err, holdfast.ErrDeadlock))
	fmt.Println("read:", read.Unlock())
	// Output:
	// written: <nil>
	// another reader: <nil>
	// <nil>
	// upgrade: true
	// read: <nil>
}

// At most two of the five work at a time, in all processes together.
func ExampleLocker_Semaphore() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	workers := locker.Semaphore("workers", 2)

	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			_ = workers.Do(ctx, func(context.Context, *holdfast.Lock) error { return nil })
		})
	}
	wg.Wait()

	total, free, err := workers.Permits(ctx)
	fmt.Println(total, free, err)
	// Output: 2 2 <nil>
}

// A waiter goes on when all three have started.
func ExampleLocker_CountDownLatch() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	started := locker.CountDownLatch("started")

	if _, err := started.TrySet(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		go func() { _ = started.CountDown(ctx) }()
	}
	fmt.Println(started.Wait(ctx))
	// Output: <nil>
}
