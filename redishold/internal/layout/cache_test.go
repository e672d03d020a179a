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

func TestPlacesAreBounded(t *testing.T) {
	l := New("app:", "", false)
	l.Place("hot")
	for i := range 5 * placesKept {
		name := fmt.Sprint("stock:", i)
		if got, want := l.Place(name), l.Locate(name); got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		if i%100 == 0 {
			if _, ok := l.places.find("hot"); !ok {
				t.Fatalf("after %d names: one that is used all the time was forgotten", i)
			}
		}
		if n := len(l.places.young) + len(l.places.old); n > 2*placesKept {
			t.Fatalf("after %d names: %d are kept, want at most %d", i, n, 2*placesKept)
		}
	}
	if _, ok := l.places.find("stock:0"); ok {
		t.Error("a name that was used once is kept forever")
	}
	long := strings.Repeat("x", longestKept+1)
	if got := l.Place(long); got != l.Locate(long) {
		t.Errorf("got %+v", got)
	}
	if _, ok := l.places.find(long); ok {
		t.Error("a very long name is kept")
	}
}

func TestPlacesOfManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New("", "", false)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 2 * placesKept {
					name := fmt.Sprint("stock:", (i*(g+1))%1500)
					if got := l.Place(name); got.Lock != name {
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
