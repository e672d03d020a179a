package holdfast

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memhold"
)

// An owner that lives for long keeps only what it holds.
func TestOwnerForgetsLostLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := New(store, nil)
		ctx := WithOwner(t.Context())
		for i := range 10 {
			name := fmt.Sprint("job:", i)
			k, err := l.Lock(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				if _, err := l.Lock(ctx, name); err != nil {
					t.Fatal(err)
				}
			}
			store.Drop(name)
			<-k.Context(t.Context()).Done()
			_ = k.Unlock()
		}
		if n := len(ownerOf(ctx).locks); n != 0 {
			t.Errorf("ten locks were lost and unlocked, and %d are remembered", n)
		}
		time.Sleep(time.Minute)
	})
}
