package memhold_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// Every kind of lock is listed with its kind, its holder, how long it has been held, and its
// waiters in their order.
func TestListTellsEveryKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, &holdfast.Options{Note: "nightly"})
		release := holdEveryKind(t, l)
		time.Sleep(3 * time.Second)
		queue(t, store, "fair", "second", "third")

		var got []string
		for r, err := range store.List(t.Context(), admin.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %s %d/%d of %d free %d count %d", r.Name, r.Kind, r.Holders, r.Waiting, r.Permits, r.Free, r.Count))
			for _, h := range r.Holds {
				if h.Note != "nightly" || h.HeldFor != 3*time.Second || h.Token == 0 || h.Remaining <= 0 || r.Remaining < h.Remaining && r.Kind != admin.KindSemaphore {
					t.Errorf("%s: got %+v in a record that remains %v", r.Name, h, r.Remaining)
				}
			}
			if r.Kind == admin.KindFair && (r.Waiters[0].Owner != "second" || r.Waiters[1].Note != "note of third") {
				t.Errorf("waiters: got %+v", r.Waiters)
			}
		}
		want := []string{
			"fair fair 1/2 of 0 free 0 count 0", "latch latch 0/0 of 0 free 0 count 3", "mutex mutex 1/0 of 0 free 0 count 0",
			"permits semaphore 2/0 of 5 free 3 count 0", "readers read-write 2/0 of 0 free 0 count 0", "writer read-write 1/0 of 0 free 0 count 0",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		release()
	})
}

// holdEveryKind takes a lock of each kind.
func holdEveryKind(t *testing.T, l *holdfast.Locker) (release func()) {
	t.Helper()
	var locks []*holdfast.Lock
	rw := l.RWMutex("readers")
	for _, lock := range []func(context.Context, ...holdfast.Option) (*holdfast.Lock, error){
		l.Mutex("mutex").Lock, l.FairMutex("fair").Lock, rw.Read.Lock, rw.Read.Lock, l.RWMutex("writer").Write.Lock,
		l.Semaphore("permits", 5).Acquire, l.Semaphore("permits", 5).Acquire,
	} {
		k, err := lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, k)
	}
	if _, err := l.CountDownLatch("latch").TrySet(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, k := range locks {
			if err := k.Unlock(); err != nil {
				t.Error(err)
			}
		}
	}
}

// queue makes owners wait for the fair lock name.
func queue(t *testing.T, store *memhold.Backend, name string, owners ...string) {
	t.Helper()
	for _, owner := range owners {
		c := driver.Claim{Name: name, Owner: owner, Fair: true, TTL: time.Minute, Count: 1, Tokens: 1, Note: "note of " + owner}
		if o, err := store.Try(t.Context(), c); err != nil || o.Granted {
			t.Fatalf("Try: got %+v and error %v, want it busy", o, err)
		}
	}
}

func TestListEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		for _, name := range []string{"a:1", "a:2", "b:1"} {
			if _, err := l.Lock(t.Context(), name, holdfast.FixedLease(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range []struct {
			ctx    context.Context
			limits admin.Filter
			want   []string
			err    error
		}{
			{t.Context(), admin.Filter{NamePrefix: "a:"}, []string{"a:1", "a:2"}, nil},
			{t.Context(), admin.Filter{Keys: 1}, []string{"a:1"}, admin.ErrIncomplete},
			{t.Context(), admin.Filter{Keys: 3}, []string{"a:1", "a:2", "b:1"}, nil},
			{cancelled, admin.Filter{}, nil, context.Canceled},
		} {
			var got []string
			var last error
			for r, err := range store.List(c.ctx, c.limits) {
				if last = err; err == nil {
					got = append(got, r.Name)
				}
			}
			if !slices.Equal(got, c.want) || !errors.Is(last, c.err) {
				t.Errorf("%+v: got %q, ended by %v, want %q, %v", c.limits, got, last, c.want, c.err)
			}
		}
		time.Sleep(time.Minute)
		for r, err := range store.List(t.Context(), admin.Filter{}) {
			t.Errorf("listed after its lease: %+v, %v", r, err)
		}
	})
}

func TestLookAndDetail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		l := holdfast.New(store, nil)
		k, err := l.Lock(t.Context(), "held")
		if err != nil {
			t.Fatal(err)
		}
		records, err := store.Get(t.Context(), "free", "held")
		if err != nil || len(records) != 2 || records[0].Kind != "" || records[0].Name != "free" || records[1].Holders != 1 || records[1].Listeners != -1 {
			t.Errorf("got %+v and error %v", records, err)
		}
		d, err := store.Describe(t.Context(), "held")
		if err != nil || d.Kind != admin.KindMutex || d.Holds[0].Token != k.Token() {
			t.Errorf("got %+v and error %v, want token %d", d, err, k.Token())
		}
		if _, err := admin.New(store).Get(t.Context(), "held", ""); err == nil {
			t.Error("an empty name: got no error")
		}
		over := []admin.Ended{{Name: "free", Owner: "a"}, {Name: "held", Owner: d.Holds[0].Owner}}
		if err := store.ForceUnlock(t.Context(), "held", d.Holds[0].Holder, "test"); err != nil {
			t.Error(err)
		}
		if why, err := store.ForceReasons(t.Context(), over); err != nil || !slices.Equal(why, []string{"", "test"}) {
			t.Errorf("got %q and error %v, want the reason of the second", why, err)
		}
		_ = k.Unlock()
		time.Sleep(time.Minute)
		if why, err := store.ForceReasons(t.Context(), over); err != nil || !slices.Equal(why, []string{"", ""}) {
			t.Errorf("a minute later: got %q and error %v, want nothing", why, err)
		}
	})
}
