package pghold

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/fence"
)

// CheckFence is fence.PostgreSQL.Check for pgx. It records the token for the name, as a part of
// the transaction tx. It returns fence.ErrStale if a larger token was recorded before. Call it
// before the protected write, in the same transaction, and roll back on any error:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := pghold.CheckFence(ctx, tx, lock.Name(), lock.Token()); err != nil {
//			return err
//		}
//		_, err := tx.Exec(ctx, "UPDATE stock SET sold = sold + 1 WHERE item = $1", item)
//		return err
//	})
//
// The token may come from a lock in any store. The tokens are in the table that the statement
// fence.PostgreSQLTable creates. A migration can execute this statement.
func CheckFence(ctx context.Context, tx pgx.Tx, name string, token uint64) error {
	return fence.CheckPostgreSQL(ctx, func(ctx context.Context, statement string, args ...any) (int64, error) {
		tag, err := tx.Exec(ctx, statement, args...)
		return tag.RowsAffected(), err
	}, name, token)
}
