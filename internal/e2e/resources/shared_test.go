package resources

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/await"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

const (
	readers = 500
	// readerScripts bounds the scripts until all readers hold: one for each, and those of the 64
	// that ask before the first answer. The server may not know the script yet: then they run it
	// twice.
	readerScripts = readers + 3*64
)

// Many readers of one program that wait for a writer cost Redis about one script each.
func TestManyReaders(t *testing.T) {
	for _, adapter := range dial.Adapters() {
		t.Run(adapter, func(t *testing.T) {
			d := redistest.StartDeployment(t, redistest.Standalone)
			holder, waiter := start(t, adapter, d).redisson, start(t, adapter, d).redisson
			c := &crowd{T: t, d: d}
			held, err := holder.RWMutex("job").Write.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := c.scripts()
			var wg, come sync.WaitGroup
			come.Add(readers)
			locks, errs := make([]*holdfast.Lock, readers), make([]error, readers)
			for i := range readers {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					come.Done()
					locks[i], errs[i] = waiter.RWMutex("job").Read.Lock(ctx)
				})
			}
			come.Wait()
			if !await.Eventually(20*time.Second, func() bool { return c.channels() > 0 }) {
				t.Fatal("nobody listens")
			}
			if err := held.Unlock(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			scripts := c.scripts() - before
			t.Logf("%d scripts for %d readers", scripts, readers)
			if err := errors.Join(errs...); err != nil || scripts > readerScripts {
				t.Errorf("%d scripts for %d readers, want at most %d; error %v", scripts, readers, readerScripts, err)
			}
			for i, k := range locks {
				if errs[i] == nil {
					_ = k.Unlock() // a release reads all readers, so that some may go on in the background
				}
			}
		})
	}
}
