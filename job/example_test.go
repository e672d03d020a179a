package job_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/job"
	"github.com/holdfast-go/holdfast/memhold"
)

// Each replica has the same Job, which its scheduler runs at each tick: one of them works.
func Example() {
	store := memhold.New() // in production a store that is shared, such as redishold
	for _, replica := range []string{"replica-1", "replica-2", "replica-3"} {
		locker := holdfast.New(store, &holdfast.Options{TTL: 5 * time.Second})
		report := func(context.Context, *holdfast.Lock) error {
			fmt.Println("the report is made by", replica)
			return nil
		}
		j := job.New(locker.Mutex("report"), report, holdfast.AtLeast(45*time.Second)) // of a minute
		j.Run()
	}

	// Output:
	// the report is made by replica-1
}
