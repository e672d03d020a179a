package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// shop sells an item to one customer at a time.
type shop struct {
	locker  *holdfast.Locker
	take    take
	payment time.Duration // how long a payment takes
	log     *slog.Logger
}

// take removes n pieces from the stock, and returns how many are left. It returns errUnknown for
// an item that never was there, and fence.ErrStale if a later holder of the lock has called it.
type take func(ctx context.Context, lock *holdfast.Lock, item string, n int) (left int, err error)

var errUnknown, errSoldOut = errors.New("no such item"), errors.New("sold out")

// buy sells a piece. The lock keeps two customers from paying for the same piece.
func (s *shop) buy(ctx context.Context, item string) (left int, err error) {
	lock, err := s.locker.Lock(ctx, "stock:"+item, holdfast.Wait(2*time.Second))
	if err != nil {
		return 0, err
	}
	defer lock.Unlock()
	ctx = lock.Context(ctx) // ends when the lock is lost; take checks the token, too
	// Take nothing yet: but from now on an older holder of the lock can take nothing, too.
	if left, err = s.take(ctx, lock, item, 0); err != nil {
		return 0, err
	}
	if left < 1 {
		return 0, errSoldOut
	}
	if err := s.pay(ctx); err != nil {
		return 0, fmt.Errorf("pay: %w", err)
	}
	// The customer has paid, and may be gone. The token refuses the write if a later holder came.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if left, err = s.take(ctx, lock, item, 1); err != nil {
		return 0, fmt.Errorf("paid, but not sold: %w", err)
	}
	return left, nil
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
	switch left, err := s.buy(r.Context(), item); {
	case err == nil:
		fmt.Fprintf(w, "sold, %d left\n", left)
	case errors.Is(err, errUnknown):
		http.Error(w, "no such item", http.StatusNotFound)
	case errors.Is(err, errSoldOut):
		http.Error(w, "sold out", http.StatusConflict)
	case errors.Is(err, holdfast.ErrBusy):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "another customer is buying this item", http.StatusLocked)
	default:
		if !errors.Is(err, r.Context().Err()) { // nil, unless the customer is gone or the shop closes
			s.log.Error("not sold", "item", item, "error", err)
		}
		http.Error(w, "not sold", http.StatusServiceUnavailable)
	}
}

// database is the stock in PostgreSQL. schema.sql has its tables.
type database struct{ pool *pgxpool.Pool }

// take checks the token and changes the stock in one transaction.
func (d database) take(ctx context.Context, lock *holdfast.Lock, item string, n int) (left int, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if err := pghold.CheckFence(ctx, tx, lock.Name(), lock.Token()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "UPDATE stock SET pieces = pieces - $2 WHERE item = $1 RETURNING pieces", item, n).Scan(&left)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errUnknown
	}
	return left, err
}
