package layout

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redishold/internal/wire"
)

func TestKeysCacheIsBounded(t *testing.T) {
	l := New("app:", "", false)
	l.Keys("hot")
	for i := range 5 * maxCached {
		name := fmt.Sprint("stock:", i)
		if got, want := l.Keys(name), l.ComputeKeys(name); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if i%100 == 0 {
			if _, ok := l.keysCache.get("hot"); !ok {
				t.Fatalf("after %d names: one that is used all the time was forgotten", i)
			}
		}
		if n := len(l.keysCache.young) + len(l.keysCache.old); n > 2*maxCached {
			t.Fatalf("after %d names: %d are kept, want at most %d", i, n, 2*maxCached)
		}
	}
	if _, ok := l.keysCache.get("stock:0"); ok {
		t.Error("a name that was used once is kept forever")
	}
	for i := range 5 * maxBytes / longestCached {
		l.Keys(fmt.Sprint(strings.Repeat("x", longestCached-4), i))
		kept := 0
		for _, generation := range []map[string]Keys{l.keysCache.young, l.keysCache.old} {
			for name := range generation {
				kept += len(name)
			}
		}
		if kept > 2*maxBytes {
			t.Fatalf("after %d long names: %d bytes are kept, want at most %d", i, kept, 2*maxBytes)
		}
	}
	long := strings.Repeat("x", longestCached-1)
	l.Keys(long)
	if _, ok := l.keysCache.get(long); !ok {
		t.Error("a long name is not kept")
	}
	long = strings.Repeat("x", longestCached+1)
	if got := l.Keys(long); got != l.ComputeKeys(long) {
		t.Errorf("got %+v", got)
	}
	if _, ok := l.keysCache.get(long); ok {
		t.Error("a very long name is kept")
	}
}

func TestKeysOfManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("", "", false)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 2 * maxCached {
					name := fmt.Sprint("stock:", (i*(g+1))%1500)
					if got := l.Keys(name); got.Lock != name {
						t.Errorf("got %+v for %q", got, name)
					}
				}
			})
		}
		all.Wait()
	})
}

func TestLeaseText(t *testing.T) {
	l := New("", "", false)
	for _, ttl := range []time.Duration{1, time.Millisecond, time.Millisecond + 1, 30 * time.Second, 30 * time.Second, 1, 1} {
		if got, want := l.Lease(ttl), wire.MS(ttl); got != want {
			t.Errorf("%v: got %s, want %s", ttl, got, want)
		}
	}
}
