package once_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memhold"
	"github.com/holdfast-go/holdfast/once"
)

// Many callers ask for a price that no cache has: it is computed once.
func ExampleDo() {
	locker := holdfast.New(memhold.New(), nil) // in production a store that is shared, such as redishold
	var prices sync.Map                        // and a cache that is

	get := func(context.Context) (int, once.State, error) {
		if price, ok := prices.Load("sku-42"); ok {
			return price.(int), once.Fresh, nil
		}
		return 0, once.Missing, nil
	}
	fill := func(_ context.Context, lock *holdfast.Lock) (int, error) {
		fmt.Println("computed")
		prices.Store("sku-42", 399)
		return 399, nil
	}
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if price, err := once.Do(context.Background(), locker.Mutex("price:sku-42"), get, fill); err != nil || price != 399 {
				fmt.Println(price, err)
			}
		})
	}
	callers.Wait()

	// Output:
	// computed
}
