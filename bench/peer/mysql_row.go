package peer

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"sync/atomic"
)

const mySQLRowSchema = "CREATE TABLE " + rowTable + " (name varbinary(255) PRIMARY KEY, owner varbinary(100)) ENGINE=InnoDB"

// mysqlBare is pgBare for MariaDB and MySQL.
func mysqlBare() Spec {
	return Spec{
		Name: "bare-updates-mysql", Client: "mysql", Role: Limit,
		Open: func(_ context.Context, t Target) (Peer, error) {
			db, err := openMySQL(t)
			if err != nil {
				return nil, err
			}
			return &mysqlBarePeer{db: db}, nil
		},
	}
}

type mysqlBarePeer struct {
	db   *sql.DB
	last atomic.Int64
}

func (p *mysqlBarePeer) Lock(ctx context.Context, key string) (Held, error) {
	h := &mysqlBareHeld{p.db, key, strconv.FormatInt(p.last.Add(1), 10)}
	for range 2 {
		n, err := changed(p.db.ExecContext(ctx, "UPDATE "+rowTable+" SET owner = ? WHERE name = ? AND owner IS NULL", h.owner, key))
		if err != nil || n == 1 {
			return h, err
		}
		if err := mysqlAddRow(ctx, p.db, key); err != nil {
			return nil, err
		}
	}
	return nil, errTaken
}

func (p *mysqlBarePeer) Close() { _ = p.db.Close() }

type mysqlBareHeld struct {
	db         *sql.DB
	key, owner string
}

func (h *mysqlBareHeld) Unlock() error {
	return released(changed(h.db.ExecContext(context.Background(), "UPDATE "+rowTable+" SET owner = NULL WHERE name = ? AND owner = ?", h.key, h.owner)))
}

// changed returns how many rows a statement has changed.
func changed(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// mysqlAddRow makes the row of a name, unless there is one.
func mysqlAddRow(ctx context.Context, db *sql.DB, key string) error {
	_, err := db.ExecContext(ctx, "INSERT IGNORE INTO "+rowTable+" (name) VALUES (?)", key)
	return err
}

// mysqlForUpdate is pgForUpdate for MariaDB and MySQL.
func mysqlForUpdate() Spec {
	return Spec{
		Name: "for-update-mysql", Client: "mysql", Role: Other, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) {
			db, err := openMySQL(t)
			if err != nil {
				return nil, err
			}
			return &mysqlForUpdatePeer{db}, nil
		},
	}
}

type mysqlForUpdatePeer struct{ db *sql.DB }

// Lock asks at the level of isolation at which a row that is missing is not locked, so that the
// makers of a row do not block each other.
func (p *mysqlForUpdatePeer) Lock(ctx context.Context, key string) (Held, error) {
	for {
		tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return nil, err
		}
		var one int
		err = tx.QueryRowContext(ctx, "SELECT 1 FROM "+rowTable+" WHERE name = ? FOR UPDATE", key).Scan(&one)
		if err == nil {
			return mysqlForUpdateHeld{tx}, nil
		}
		_ = tx.Rollback()
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err := mysqlAddRow(ctx, p.db, key); err != nil {
			return nil, err
		}
	}
}

func (p *mysqlForUpdatePeer) Close() { _ = p.db.Close() }

type mysqlForUpdateHeld struct{ tx *sql.Tx }

func (h mysqlForUpdateHeld) Unlock() error { return h.tx.Commit() }
