package redishold

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPlacesAreBounded(t *testing.T) {
	l := &layout{prefix: "app:"}
	l.place("hot")
	for i := range 5 * placesKept {
		name := fmt.Sprint("stock:", i)
		if got, want := l.place(name), l.locate(name); got != want {
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
		t.Error("a name that was used once is kept for ever")
	}
	long := strings.Repeat("x", longestKept+1)
	if got := l.place(long); got != l.locate(long) {
		t.Errorf("got %+v", got)
	}
	if _, ok := l.places.find(long); ok {
		t.Error("a very long name is kept")
	}
}

func TestPlacesOfManyGoroutines(t *testing.T) {
	l := &layout{}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 2 * placesKept {
				name := fmt.Sprint("stock:", (i*(g+1))%1500)
				if got := l.place(name); got.lock != name {
					t.Errorf("got %+v for %q", got, name)
				}
			}
		})
	}
	all.Wait()
}

// A renewal is made from the key alone.
func TestRenewalsNeedTheKeyOnly(t *testing.T) {
	for _, o := range []Options{{}, {Prefix: "app:"}, {Prefix: "{app}:"}, {Protocol: Plain}, {Protocol: Timestamp}} {
		b := New(&fakeConn{}, &o)
		for kind := range uint8(5) {
			c := fuzzClaim(kind, "stock:42")
			f := b.form(c)
			got, want := f.renew(room{}, b.layout.key(c.Name), c), f.renew(room{}, b.layout.place(c.Name), c)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, kind %d: got %+v, want %+v", o, kind, got, want)
			}
			if len(got.Keys) > renewKeys || len(got.Args) > renewArgs {
				t.Errorf("%+v, kind %d: %d keys and %d arguments do not fit", o, kind, len(got.Keys), len(got.Args))
			}
		}
	}
}

// Every call of a pair fits into an errand.
func TestErrandsHaveRoom(t *testing.T) {
	both := []string{"PUBLISH", "SPUBLISH"}
	for _, o := range []Options{{}, {Protocol: Plain}, {Protocol: Timestamp}} {
		b := New(&fakeConn{}, &o)
		for kind := range uint8(5) {
			c := fuzzClaim(kind, "stock:42")
			f, p := b.form(c), b.layout.place(c.Name)
			for _, call := range []Call{f.acquire(room{}, p, c, "", both), f.release(room{}, p, c, both)} {
				if len(call.Keys) > len(errand{}.keys) || len(call.Args) > len(errand{}.args) {
					t.Errorf("%s: %d keys and %d arguments do not fit", call.Script.Name(), len(call.Keys), len(call.Args))
				}
			}
		}
	}
}

func TestLeaseText(t *testing.T) {
	l := &layout{}
	for _, ttl := range []time.Duration{1, time.Millisecond, time.Millisecond + 1, 30 * time.Second, 30 * time.Second, 1, 1} {
		if got, want := l.lease(ttl), ms(ttl); got != want {
			t.Errorf("%v: got %s, want %s", ttl, got, want)
		}
	}
}

func TestRoomsAreApart(t *testing.T) {
	all := room{keys: make([]string, 3), args: make([]string, 6)}
	var calls []Call
	for i := range 3 {
		to := all.cut(1, 2)
		calls = append(calls, Call{
			Keys: append(to.keys, fmt.Sprint("key ", i), fmt.Sprint("more ", i)),
			Args: append(to.args, fmt.Sprint("a ", i), fmt.Sprint("b ", i)),
		})
	}
	for i, call := range calls {
		if got, want := fmt.Sprint(call.Keys, call.Args), fmt.Sprintf("[key %d more %d] [a %d b %d]", i, i, i, i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
