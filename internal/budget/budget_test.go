package budget_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/admin"
	"github.com/holdfast-go/holdfast/internal/budget"
)

// Pages end when the keys are used up, and the last is as large as what is left.
func TestKeys(t *testing.T) {
	b := budget.New(admin.Filter{Keys: 250})
	for _, want := range []int{100, 100, 50} {
		if got, err := b.Page(t.Context(), 100); got != want || err != nil {
			t.Errorf("Page: got %d keys and error %v, want %d", got, err, want)
		}
	}
	if got, err := b.Page(t.Context(), 100); !errors.Is(err, admin.ErrIncomplete) {
		t.Errorf("Page after the last key: got %d keys and error %v, want ErrIncomplete", got, err)
	}
	free := budget.New(admin.Filter{})
	for range 100 {
		if got, err := free.Page(t.Context(), 1000); got != 1000 || err != nil {
			t.Fatalf("Page without a bound: got %d keys and error %v", got, err)
		}
	}
}

// Some hundred commands come at once, and then so many per second.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := budget.New(admin.Filter{Pace: 10}), time.Now()
		page := func(after time.Duration) {
			t.Helper()
			if _, err := b.Page(t.Context(), 5); err != nil || time.Since(began) != after {
				t.Errorf("Page: got error %v after %v, want none after %v", err, time.Since(began), after)
			}
		}
		page(0)
		b.Spent(199)
		page(0)
		b.Spent(99)
		page(10 * time.Second)
		page(10*time.Second + 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait with a context that ends: got error %v, want its own", err)
		}
	})
}
