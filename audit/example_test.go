package audit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/audit"
	"github.com/holdfast-go/holdfast/memhold"
)

func ExampleWriter() {
	ctx := context.Background()
	store := memhold.New()
	log := audit.New(store, nil)
	worker := holdfast.New(store, &holdfast.Options{Note: "worker-1", Observe: log.Observe})

	lock, err := worker.Lock(ctx, "nightly")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = lock.Unlock()
	_ = log.Flush(ctx) // while the program runs, it writes once a second

	for e, err := range admin.New(store).Log(ctx, admin.LogFilter{Last: time.Hour}) {
		fmt.Println(e.Type, e.Name, "by", e.Note, e.Token == lock.Token(), err)
	}

	// Output:
	// acquired nightly by worker-1 true <nil>
	// released nightly by worker-1 true <nil>
}
