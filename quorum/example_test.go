package quorum_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/quorum"
)

// In production the members are redishold backends on independent servers.
func Example() {
	one, two, three := memhold.New(), memhold.New(), memhold.New()

	backend, err := quorum.Of(one, two, three)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = backend.Drain(context.Background()) }()
	locker := holdfast.New(backend, nil)

	lock, err := locker.Lock(context.Background(), "nightly-report")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lock.Err() == nil, "fencing token:", lock.Token())
	fmt.Println(lock.Unlock())
	// Output:
	// held: true fencing token: 0
	// <nil>
}
