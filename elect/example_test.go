package elect_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/elect"
	"github.com/holdfast-go/holdfast/memhold"
)

// A replica leads until it is shut down. Other replicas find out which one leads, by the
// note of its Locker.
func Example() {
	store := memhold.New() // in production a store that is shared, such as redishold
	locker := holdfast.New(store, &holdfast.Options{Note: "replica-1 at 10.0.0.7:8080"})
	ctx, shutDown := context.WithCancel(context.Background())

	e := elect.New(locker.Mutex("leader/billing"))
	err := e.Run(ctx, func(term context.Context, lock *holdfast.Lock) error {
		for leader, err := range elect.Watch(term, admin.New(store), lock.Name()) { // as a follower does
			if err != nil {
				return err
			}
			fmt.Println("the leader is", leader.Note)
			break
		}
		shutDown()
		<-term.Done() // work until the term is over
		return nil
	})
	fmt.Println("resigned:", err)

	// Output:
	// the leader is replica-1 at 10.0.0.7:8080
	// resigned: <nil>
}
