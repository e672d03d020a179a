package peer

import (
	"context"
	"database/sql"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/holdfast-go/holdfast/mysqlhold"
)

// MySQLSchema returns the statements that make Tables in MariaDB or MySQL.
func MySQLSchema() []string {
	return []string{mysqlhold.New(nil, nil).Schema(), mySQLHeartbeat().schema, mySQLRowSchema}
}

func openMySQL(t Target) (*sql.DB, error) {
	db, err := sql.Open("mysql", t.MySQL)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

func holdfastMySQL() Spec {
	return Spec{
		Name: "holdfast-mysql", Client: "mysql", Role: Ours, Can: []Ability{Waits, Renews},
		Open: func(_ context.Context, t Target) (Peer, error) {
			db, err := openMySQL(t)
			if err != nil {
				return nil, err
			}
			return newHoldfastOn(mysqlhold.New(db, nil), t, func() { _ = db.Close() }), nil
		},
	}
}

// mysqlGetLock holds a lock as long as a connection: there is no lease and no token.
func mysqlGetLock() Spec {
	return Spec{
		Name: "GET_LOCK", Client: "mysql", Role: Other, Can: []Ability{Waits},
		Open: func(_ context.Context, t Target) (Peer, error) {
			db, err := openMySQL(t)
			if err != nil {
				return nil, err
			}
			return &getLockPeer{db}, nil
		},
	}
}

type getLockPeer struct{ db *sql.DB }

func (p *getLockPeer) Lock(ctx context.Context, key string) (Held, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 3600)", key).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errNotHeld
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &getLockHeld{conn, key}, nil
}

func (p *getLockPeer) Close() { _ = p.db.Close() }

type getLockHeld struct {
	conn *sql.Conn
	key  string
}

func (h *getLockHeld) Unlock() error {
	defer h.conn.Close()
	var was sql.NullInt64
	err := h.conn.QueryRowContext(context.Background(), "SELECT RELEASE_LOCK(?)", h.key).Scan(&was)
	if err == nil && was.Int64 != 1 {
		return errNotHeld
	}
	return err
}

func mysqlHeartbeat() Spec {
	return heartbeatSpec("heartbeat-row-mysql", "mysql", 0, mySQLHeartbeat)
}

func mysqlHeartbeatQuick() Spec {
	return heartbeatSpec("heartbeat-row-mysql-100ms", "mysql", quickLease, mySQLHeartbeat)
}

// mySQLHeartbeat is the same for MariaDB and MySQL, where the level of PostgreSQL would
// make deadlocks of what waits.
func mySQLHeartbeat() heartbeatSQL {
	return heartbeatSQL{
		driver: "mysql", isolation: sql.LevelReadCommitted,
		at:     func(t Target) string { return t.MySQL },
		schema: "CREATE TABLE " + heartbeatTable + " (name varchar(255) PRIMARY KEY, version varchar(64)) ENGINE=InnoDB",
		take: "INSERT INTO " + heartbeatTable + " (name, version) VALUES (?, ?) ON DUPLICATE KEY UPDATE " +
			"version = IF(version IS NULL OR version = ?, VALUES(version), version)",
		read:  "SELECT version FROM " + heartbeatTable + " WHERE name = ? FOR UPDATE",
		write: "UPDATE " + heartbeatTable + " SET version = ? WHERE name = ? AND version = ?",
	}
}
