package peer

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rowTable has a row for each name that was ever locked by the peers of this file and of
// mysql_row.go.
const rowTable = "bench_row"

// pgRowSchema leaves half of each page free, as the table of pghold does.
const pgRowSchema = "CREATE TABLE " + rowTable + ` (name text COLLATE "C" PRIMARY KEY, owner text) WITH (fillfactor = 50)`

// pgBare changes the row of a name twice: the least that a lock in a row costs. It has no lease,
// no token and no waiting.
func pgBare() Spec {
	return Spec{
		Name: "bare-updates", Client: "pgx", Role: Limit,
		Open: func(ctx context.Context, t Target) (Peer, error) {
			pool, err := openPool(ctx, t)
			if err != nil {
				return nil, err
			}
			return &pgBarePeer{pool: pool}, nil
		},
	}
}

type pgBarePeer struct {
	pool *pgxpool.Pool
	last atomic.Int64
}

func (p *pgBarePeer) Lock(ctx context.Context, key string) (Held, error) {
	h := &pgBareHeld{p.pool, key, strconv.FormatInt(p.last.Add(1), 10)}
	for range 2 {
		tag, err := p.pool.Exec(ctx, "UPDATE "+rowTable+" SET owner = $2 WHERE name = $1 AND owner IS NULL", key, h.owner)
		if err != nil || tag.RowsAffected() == 1 {
			return h, err
		}
		if err := pgAddRow(ctx, p.pool, key); err != nil {
			return nil, err
		}
	}
	return nil, errTaken
}

func (p *pgBarePeer) Close() { p.pool.Close() }

type pgBareHeld struct {
	pool       *pgxpool.Pool
	key, owner string
}

func (h *pgBareHeld) Unlock() error {
	tag, err := h.pool.Exec(context.Background(), "UPDATE "+rowTable+" SET owner = NULL WHERE name = $1 AND owner = $2", h.key, h.owner)
	if err != nil {
		return err
	}
	return released(tag.RowsAffected(), nil)
}

// pgAddRow makes the row of a name, unless there is one.
func pgAddRow(ctx context.Context, pool *pgxpool.Pool, key string) error {
	_, err := pool.Exec(ctx, "INSERT INTO "+rowTable+" (name) VALUES ($1) ON CONFLICT DO NOTHING", key)
	return err
}

// pgForUpdate locks the row of a name for as long as a transaction: there is no lease and no
// token, and each holder and each waiter needs a connection.
func pgForUpdate() Spec {
	return Spec{
		Name: "for-update", Client: "pgx", Role: Other, Can: []Ability{Waits},
		Open: func(ctx context.Context, t Target) (Peer, error) {
			pool, err := openPool(ctx, t)
			if err != nil {
				return nil, err
			}
			return &pgForUpdatePeer{pool}, nil
		},
	}
}

type pgForUpdatePeer struct{ pool *pgxpool.Pool }

func (p *pgForUpdatePeer) Lock(ctx context.Context, key string) (Held, error) {
	for {
		tx, err := p.pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		var one int
		err = tx.QueryRow(ctx, "SELECT 1 FROM "+rowTable+" WHERE name = $1 FOR UPDATE", key).Scan(&one)
		if err == nil {
			return pgForUpdateHeld{tx}, nil
		}
		_ = tx.Rollback(ctx)
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
		if err := pgAddRow(ctx, p.pool, key); err != nil {
			return nil, err
		}
	}
}

func (p *pgForUpdatePeer) Close() { p.pool.Close() }

type pgForUpdateHeld struct{ tx pgx.Tx }

func (h pgForUpdateHeld) Unlock() error { return h.tx.Commit(context.Background()) }
