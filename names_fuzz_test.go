package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/must"
	"github.com/holdfast-go/holdfast/memhold"
)

// takeKind takes a lock of one kind, without waiting.
func takeKind(ctx context.Context, l *holdfast.Locker, kind uint8, name string) (*holdfast.Lock, error) {
	switch kind % 5 {
	case 1:
		return l.FairMutex(name).TryLock(ctx)
	case 2:
		return l.RWMutex(name).Read.TryLock(ctx)
	case 3:
		return l.RWMutex(name).Write.TryLock(ctx)
	case 4:
		return l.Semaphore(name, 1).TryAcquire(ctx)
	default:
		return l.TryLock(ctx, name)
	}
}

// FuzzNames shows that only the bytes of a name count: locks of different names never
// exclude each other, whatever their kind, and locks of the same name always do.
func FuzzNames(f *testing.F) {
	for kind := range uint8(5) {
		f.Add(kind, kind+1, "orders", "Orders")
		f.Add(kind, kind, "a", "a\x00")
		f.Add(kind, kind, "", "a")
		f.Add(kind, kind, "\xff", "\xfe")
		f.Add(kind, kind, "é", "e\u0301")
		f.Add(kind, kind+2, "{a}", "a")
	}
	f.Fuzz(func(t *testing.T, kind, otherKind uint8, name, other string) {
		synctest.Test(t, func(t *testing.T) { namesOf(t, kind, otherKind, name, other) })
	})
}

func namesOf(t *testing.T, kind, otherKind uint8, name, other string) {
	store := memhold.New()
	here, there := holdfast.New(store, nil), holdfast.New(store, nil)
	first, err := takeKind(t.Context(), here, kind, name)
	if name == "" {
		if err == nil {
			t.Fatal("a lock without a name was granted")
		}
		return
	}
	if err != nil {
		t.Fatalf("kind %d, %q: got %v, want a lock", kind, name, err)
	}
	if first.Name() != name {
		t.Errorf("Name: got %q, want %q", first.Name(), name)
	}
	same, err := takeKind(t.Context(), there, kind, name)
	if kind%5 == 2 { // readers share
		if err != nil {
			t.Errorf("a second reader of %q: got %v", name, err)
		} else if err := same.Unlock(); err != nil {
			t.Error(err)
		}
	} else if same != nil || !errors.Is(err, holdfast.ErrBusy) {
		t.Errorf("kind %d, %q again: got %v and error %v, want ErrBusy", kind, name, same, err)
	}
	if other != name && other != "" {
		second, err := takeKind(t.Context(), there, otherKind, other)
		if err != nil {
			t.Fatalf("%q is kept out of %q: %v", other, name, err)
		}
		must.Unlock(t, second)
	}
	must.Unlock(t, first)
	if hs, err := store.Get(t.Context(), name); err != nil || hs[0].Holders != 0 {
		t.Errorf("%q after Unlock: got %v and error %v, want none", name, hs, err)
	}
}
