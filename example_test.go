package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
)

// A lock is held from Lock to Unlock. The work under it uses the lock's context, which ends
// when the lock is lost.
func Example() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil) // in production a store that is shared, such as redishold

	lock, err := locker.Lock(ctx, "stock:42") // waits until ctx is done
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock()

	fmt.Println("held:", lock.Name(), lock.Err() == nil)
	fmt.Println("has a fencing token:", lock.Token() > 0)
	fmt.Println("may go on:", lock.Context(ctx).Err() == nil)

	// Output:
	// held: stock:42 true
	// has a fencing token: true
	// may go on: true
}

// Prefer Do: it unlocks by itself, and returns an error if the lock was lost, also if the
// function returned none.
func ExampleDo() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	stock := 3

	left, err := holdfast.Do(ctx, locker, "stock:42", func(_ context.Context, _ *holdfast.Lock) (int, error) {
		stock--
		return stock, nil
	})
	fmt.Println(left, err)

	// Output:
	// 2 <nil>
}

// TryLock does not wait, unless Wait allows it to.
func ExampleLocker_TryLock() {
	ctx := context.Background()
	store := memhold.New()
	one := holdfast.New(store, &holdfast.Options{Note: "worker-1"})
	other := holdfast.New(store, &holdfast.Options{Note: "worker-2"})

	lock, err := one.TryLock(ctx, "nightly")
	fmt.Println("worker-1:", err)

	_, err = other.TryLock(ctx, "nightly", holdfast.Wait(10*time.Millisecond))
	var busy *holdfast.BusyError
	fmt.Println("worker-2 has to wait:", errors.Is(err, holdfast.ErrBusy))
	fmt.Println("held by a known holder:", errors.As(err, &busy) && busy.Holder == "worker-1")

	fmt.Println("unlock:", lock.Unlock())

	// Output:
	// worker-1: <nil>
	// worker-2 has to wait: true
	// held by a known holder: true
	// unlock: <nil>
}

// The context of a lock ends when the lock is lost, and reports why.
func ExampleLock_Context() {
	ctx := context.Background()
	store := memhold.New()
	locker := holdfast.New(store, &holdfast.Options{TTL: 3 * time.Second})

	lock, err := locker.Lock(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	work := lock.Context(ctx)
	store.Drop("nightly") // an operator deletes the record by hand

	<-work.Done()
	fmt.Println(context.Cause(work))
	fmt.Println("unlock reports it, too:", errors.Is(lock.Unlock(), holdfast.ErrLost))

	// Output:
	// lock "nightly" lost: deleted: the record was deleted by hand
	// unlock reports it, too: true
}

// A lock with a fixed lease is not renewed.
func ExampleFixedLease() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)

	lock, err := locker.Lock(ctx, "report", holdfast.FixedLease(50*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lock.Context(ctx).Done()
	fmt.Println(lock.Err())

	// Output:
	// lock "report" lost: expired
}

// In a call tree that counts as one holder, a lock is reentrant.
func ExampleWithOwner() {
	ctx := holdfast.WithOwner(context.Background())
	locker := holdfast.New(memhold.New(), nil)

	outer, err := locker.Lock(ctx, "account:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	inner, err := locker.Lock(ctx, "account:7") // in some function further down
	fmt.Println("the same lock:", inner == outer, err)

	fmt.Println("unlock:", inner.Unlock(), "still held:", outer.Err() == nil)
	fmt.Println("unlock:", outer.Unlock(), "still held:", outer.Err() == nil)

	// Output:
	// the same lock: true <nil>
	// unlock: <nil> still held: true
	// unlock: <nil> still held: false
}

// LockAll takes all locks or none, in an order that cannot deadlock.
func ExampleLockAll() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)

	locks, err := holdfast.LockAll(ctx, []*holdfast.Mutex{locker.Mutex("account:7"), locker.Mutex("account:3")})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, lock := range locks {
		fmt.Println(lock.Name())
	}
	fmt.Println("unlock:", locks.Unlock())

	// Output:
	// account:3
	// account:7
	// unlock: <nil>
}

// docs/kinds.md has lines of these examples: see TestKindsOfThePage in internal/e2e/locktest.

// Do waits for the lock, calls the function, and releases the lock.
func ExampleMutex_Do() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	ship := func(_ context.Context, token uint64) error {
		fmt.Println("shipped, with a token:", token > 0)
		return nil
	}

	err := locker.Mutex("stock:42").Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		return ship(ctx, lock.Token()) // ctx ends when the lock is lost
	})
	fmt.Println(err)
	// Output:
	// shipped, with a token: true
	// <nil>
}

// Two processes want to make the same report. The second one finds the name taken, although
// the first one has finished.
func ExampleAtLeast() {
	ctx := context.Background()
	store := memhold.New()
	report := func(context.Context, *holdfast.Lock) error {
		fmt.Println("report")
		return nil
	}

	for range 2 {
		locker := holdfast.New(store, nil) // each process has its own
		err := locker.Mutex("report").Do(ctx, report, holdfast.Wait(0), holdfast.AtLeast(time.Minute))
		fmt.Println("made by another process:", errors.Is(err, holdfast.ErrBusy))
	}
	// Output:
	// report
	// made by another process: false
	// made by another process: true
}

// Work that hangs loses its lock.
func ExampleAtMost() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	limit := 50 * time.Millisecond

	err := locker.Mutex("export").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		<-ctx.Done() // work that hangs
		return context.Cause(ctx)
	}, holdfast.AtMost(limit))
	fmt.Println(err)
	// Output: lock "export" lost: expired
}

// Code under a lock calls code that takes the same lock.
func ExampleWithOwner_nested() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	book := func(_ context.Context, lock *holdfast.Lock) error {
		fmt.Println("booked, held:", lock.Err() == nil)
		return nil
	}

	ctx = holdfast.WithOwner(ctx)
	err := locker.Mutex("account:7").Do(ctx, func(ctx context.Context, _ *holdfast.Lock) error {
		return locker.Mutex("account:7").Do(ctx, book) // the same lock again
	})
	fmt.Println(err)
	// Output:
	// booked, held: true
	// <nil>
}

// The waiters for a fair mutex get it in the order in which they came.
func ExampleLocker_FairMutex() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	printPage := func(_ context.Context, lock *holdfast.Lock) error {
		fmt.Println("printing, held:", lock.Err() == nil)
		return nil
	}

	err := locker.FairMutex("printer").Do(ctx, printPage)
	fmt.Println(err)
	// Output:
	// printing, held: true
	// <nil>
}

// Readers share the page; a writer has it alone.
func ExampleRWMutex() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	show := func(context.Context, *holdfast.Lock) error { return nil }
	save := func(context.Context, *holdfast.Lock) error { return nil }

	page := locker.RWMutex("page")
	read := func() error { return page.Read.Do(ctx, show) }   // beside other readers
	write := func() error { return page.Write.Do(ctx, save) } // alone
	fmt.Println(read(), write())
	// Output: <nil> <nil>
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
	convert := func(context.Context, *holdfast.Lock) error { return nil }

	workers := locker.Semaphore("workers", 2)
	work := func() error { return workers.Do(ctx, convert) } // two at a time

	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { _ = work() })
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

// A comparison needs both scales.
func ExampleDoAll() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)
	compare := func(_ context.Context, locks holdfast.Locks) error {
		fmt.Println(len(locks), "locks, held:", locks.Err() == nil)
		return nil
	}

	scales := []*holdfast.Mutex{locker.Mutex("scale:7"), locker.Mutex("scale:3")}
	err := holdfast.DoAll(ctx, scales, compare)
	fmt.Println(err)
	// Output:
	// 2 locks, held: true
	// <nil>
}
