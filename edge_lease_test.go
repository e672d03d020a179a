package holdfast_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faulty"
	"github.com/holdfast-go/holdfast/internal/must"
)

// The holder of a lease with a fixed end is notified of a forced unlock as soon as that of
// a renewed one, also on a store that sends no notices.
func TestForcedLeaseIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty.New()
		quiet := struct{ driver.Backend }{store} // no notices
		l, other := holdfast.New(quiet, &holdfast.Options{TTL: ttl}), holdfast.New(quiet, &holdfast.Options{TTL: ttl})
		k := must.Lock(t, l, "a", holdfast.Lease(time.Minute))
		time.Sleep(time.Second)
		if err := store.ForceUnlock(t.Context(), "a", holders(t, store, "a")[0], "stuck"); err != nil {
			t.Fatal(err)
		}
		second := must.Lock(t, other, "a")
		forced := time.Now()
		<-k.Context(t.Context()).Done()
		between(t, "notified after", time.Since(forced), 0, ttl/3)
		var lost *holdfast.LostError
		if err := k.Err(); !errors.As(err, &lost) || lost.Reason != driver.ReasonForced {
			t.Errorf("got %v, want it forced", err)
		}
		must.Unlock(t, second)
	})
}
