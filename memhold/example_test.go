package memhold_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// Programs pass a Backend to holdfast.New, which makes calls like these.
func Example() {
	ctx := context.Background()
	store := memhold.New()

	mine := driver.Claim{Name: "stock:42", Owner: "shop:1", TTL: time.Minute, Note: "shop@web-1"}
	yours := driver.Claim{Name: "stock:42", Owner: "shop:2", TTL: time.Minute, Note: "shop@web-2"}

	first, err := store.Try(ctx, mine)
	fmt.Println("first:", first.Granted, err)

	second, err := store.Try(ctx, yours)
	fmt.Println("second:", second.Granted, err, "held by", second.Holder)

	fmt.Println("release:", store.Release(ctx, mine))

	second, err = store.Try(ctx, yours)
	fmt.Println("second:", second.Granted, err, "larger token:", second.Token > first.Token)

	// Output:
	// first: true <nil>
	// second: false <nil> held by shop@web-1
	// release: <nil>
	// second: true <nil> larger token: true
}

// The test of a program that loses a lock deletes the record.
func ExampleBackend_Drop() {
	ctx := context.Background()
	store := memhold.New()

	c := driver.Claim{Name: "stock:42", Owner: "shop:1", TTL: time.Minute}
	if _, err := store.Try(ctx, c); err != nil {
		fmt.Println(err)
	}
	fmt.Println("dropped:", store.Drop("stock:42"))
	fmt.Println("release:", store.Release(ctx, c))

	// Output:
	// dropped: true
	// release: the record was deleted by hand
}

// Each process of a test has its own connection, which the test can disturb.
func ExampleBackend_Connect() {
	ctx := context.Background()
	store := memhold.New()
	first, second := store.Connect(), store.Connect()
	first.Fail(driver.ErrNotExecuted) // for this process the store is down

	_, err := holdfast.New(first, nil).TryLock(ctx, "stock:42")
	fmt.Println("first:", err)

	lock, err := holdfast.New(second, nil).TryLock(ctx, "stock:42")
	fmt.Println("second:", err)
	fmt.Println("unlock:", lock.Unlock())

	// Output:
	// first: lock "stock:42": not executed
	// second: <nil>
	// unlock: <nil>
}
