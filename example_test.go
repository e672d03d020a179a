package holdfast_test

import (
	"context"
	"errors"
	"fmt"
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
func ExampleLease() {
	ctx := context.Background()
	locker := holdfast.New(memhold.New(), nil)

	lock, err := locker.Lock(ctx, "report", holdfast.Lease(50*time.Millisecond))
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
