package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

// shop sells an item to one customer at a time.
type shop struct {
	locker  *holdfast.Locker
	stock   stock
	payment time.Duration // how long a payment takes
	log     *slog.Logger
}

type stock interface {
	// take removes n pieces, and returns how many are left. It returns fence.ErrStale, and
	// removes nothing, if a later holder of the lock has called it.
	take(ctx context.Context, lock *holdfast.Lock, item string, n int) (left int, err error)
}

var errSoldOut = errors.New("sold out")

// buy sells a piece. The lock keeps two customers from paying for the same piece.
func (s *shop) buy(ctx context.Context, item string) (left int, err error) {
	lock, err := s.locker.Lock(ctx, "stock:"+item, holdfast.Wait(2*time.Second))
	if err != nil {
		return 0, err
	}
	defer lock.Unlock()
	ctx = lock.Context(ctx) // ends when the lock is lost; take checks the token, too
	// Take nothing yet: but from now on an older holder of the lock can take nothing, too.
	if left, err := s.stock.take(ctx, lock, item, 0); err != nil || left == 0 {
		return 0, cmp.Or(err, errSoldOut)
	}
	if err := s.pay(ctx); err != nil {
		return 0, fmt.Errorf("pay: %w", err)
	}
	return s.stock.take(ctx, lock, item, 1)
}

// pay stands for a call to a payment service. It is too slow for a transaction.
func (s *shop) pay(ctx context.Context) error {
	select {
	case <-time.After(s.payment):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handleBuy answers POST /buy/{item}.
func (s *shop) handleBuy(w http.ResponseWriter, r *http.Request) {
	item := r.PathValue("item")
	left, err := s.buy(r.Context(), item)
	switch {
	case err == nil:
		fmt.Fprintf(w, "sold, %d left\n", left)
	case errors.Is(err, errSoldOut):
		http.Error(w, "sold out", http.StatusConflict)
	case errors.Is(err, holdfast.ErrBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "another customer is buying this item", http.StatusLocked)
	default:
		s.log.Error("not sold", "item", item, "error", err)
		http.Error(w, "not sold", http.StatusServiceUnavailable)
	}
}
