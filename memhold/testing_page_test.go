package memhold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memhold"
)

// The code of docs/testing.md; internal/e2e/pages compares it with the page.

// Shop sells items. One process at a time sells an item.
type Shop struct{ locker *holdfast.Locker }

// NewShop returns a Shop that takes its locks from the Locker.
func NewShop(locker *holdfast.Locker) *Shop { return &Shop{locker} }

// Sell calls ship while it holds the lock of the item. It waits two seconds for the lock.
func (s *Shop) Sell(ctx context.Context, item string, ship func(ctx context.Context, token uint64) error) error {
	return s.locker.Mutex("stock:"+item).Do(ctx, func(ctx context.Context, lock *holdfast.Lock) error {
		return ship(ctx, lock.Token())
	}, holdfast.Wait(2*time.Second))
}

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		one, two := NewShop(holdfast.New(store, nil)), NewShop(holdfast.New(store, nil))
		err := one.Sell(t.Context(), "42", func(context.Context, uint64) error {
			time.Sleep(time.Hour) // takes no time: the clock is fake
			return two.Sell(t.Context(), "42", func(context.Context, uint64) error {
				t.Error("two processes sell at once")
				return nil
			})
		})
		if !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	})
}

func TestLost(t *testing.T) {
	for reason, lose := range map[driver.Reason]func(*memhold.Backend, *memhold.Conn){
		driver.ReasonDeleted:     func(store *memhold.Backend, _ *memhold.Conn) { store.Drop("stock:42") },
		driver.ReasonUnreachable: func(_ *memhold.Backend, conn *memhold.Conn) { conn.Cut() },
		driver.ReasonRefused:     func(_ *memhold.Backend, conn *memhold.Conn) { conn.Fail(driver.ErrDenied) },
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memhold.New()
				conn := store.Connect()
				locker := holdfast.New(conn, nil)
				err := NewShop(locker).Sell(t.Context(), "42", func(ctx context.Context, _ uint64) error {
					lose(store, conn)
					<-ctx.Done() // the work stops here
					return ctx.Err()
				})
				var lost *holdfast.LostError
				if !errors.As(err, &lost) || lost.Reason != reason {
					t.Errorf("got %v, want the reason %s", err, reason)
				}
				if err := locker.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memhold.New()
		conn := store.Connect()
		one, two := holdfast.New(conn, nil), holdfast.New(store, nil)
		before, err := one.Lock(t.Context(), "stock:42")
		if err != nil {
			t.Fatal(err)
		}
		conn.Cut() // as if the machine were dead
		next, err := two.Lock(t.Context(), "stock:42")
		if err != nil {
			t.Fatal(err)
		}
		if before.Err() == nil || next.Token() <= before.Token() {
			t.Errorf("the holder before: %v, tokens %d and %d", before.Err(), before.Token(), next.Token())
		}
		if err := next.Unlock(); err != nil {
			t.Error(err)
		}
		if err := one.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
