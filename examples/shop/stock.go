package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/pghold"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
		return 0, errSoldOut // there never was such an item
	}
	return left, err
}
