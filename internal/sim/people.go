package sim

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/admin"
)

// Force is that of a Store whose engine people can look into.
func Force(engine admin.Source, name string) bool {
	ctx := context.Background()
	records, err := engine.Get(ctx, name)
	return err == nil && len(records) > 0 && len(records[0].Holds) > 0 &&
		engine.ForceUnlock(ctx, name, records[0].Holds[0].Holder, "by hand") == nil
}

// Left is that of a Store whose engine people can look into.
func Left(engine admin.Source) (left []string) {
	for r, err := range engine.List(context.Background(), admin.Filter{}) {
		if err != nil || r.Holders > 0 || r.Waiting > 0 {
			left = append(left, fmt.Sprintf("%s: holders %v, waiters %v, %v", r.Name, r.Holds, r.Waiters, err))
		}
	}
	return left
}
