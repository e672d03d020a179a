package peer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// heartbeatTable has a row for each name: a version that the holder changes from time to
// time, and none while the name is free.
const heartbeatTable = "bench_heartbeat"

// heartbeatSQL is how a database is talked to.
type heartbeatSQL struct {
	driver    string
	isolation sql.IsolationLevel
	at        func(Target) string
	schema    string
	take      string // with the name, a new version and the one that was seen before
	read      string // with the name
	write     string // with a new version or NULL, the name and the own version
}

// heartbeatSpec is the algorithm of cirello/pglock, written again after its source: the
// module cannot be downloaded from the Go module proxy. Who finds a lock taken sleeps for
// the lease, and takes it if the version is still the same then. lease 0 means that of
// the Target.
func heartbeatSpec(name, client string, lease time.Duration, dialect func() heartbeatSQL) Spec {
	only := Ability("")
	if lease > 0 {
		only = Waits
	}
	return Spec{
		Name: name, Client: client, Role: Other, Only: only, Can: []Ability{Waits, Renews},
		Open: func(_ context.Context, t Target) (Peer, error) {
			p := &heartbeatPeer{sql: dialect(), lease: lease}
			if lease == 0 {
				p.lease = time.Duration(t.TTL)
			}
			db, err := sql.Open(p.sql.driver, p.sql.at(t))
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(connections)
			db.SetMaxIdleConns(connections)
			p.db = db
			return p, nil
		},
	}
}

// quickLease is one with which a waiter tries ten times a second. No holder would be
// given it in earnest.
const quickLease = 100 * time.Millisecond

type heartbeatPeer struct {
	sql   heartbeatSQL
	db    *sql.DB
	lease time.Duration
	beats sync.WaitGroup
}

func (p *heartbeatPeer) Lock(ctx context.Context, key string) (Held, error) {
	for seen := ""; ; {
		version := rand.Text()
		now, err := p.try(ctx, key, version, seen)
		switch {
		case err != nil:
			return nil, err
		case now == version:
			return p.hold(key, version), nil
		}
		seen = now
		select {
		case <-time.After(p.lease):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try takes the row if it is free or has not changed since it was seen, and returns the
// version that it has.
func (p *heartbeatPeer) try(ctx context.Context, key, version, seen string) (now string, err error) {
	err = p.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, p.sql.take, key, version, seen); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, p.sql.read, key).Scan(&now)
	})
	return now, err
}

// inTx does f in a transaction, again where the database says that others were in its way.
func (p *heartbeatPeer) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	for {
		tx, err := p.db.BeginTx(ctx, &sql.TxOptions{Isolation: p.sql.isolation})
		if err != nil {
			return err
		}
		if err = f(tx); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
		if !again(err) {
			return err
		}
	}
}

// again reports whether a transaction failed because of another one.
func again(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "40001"
	}
	my, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && my.Number == 1213
}

func (p *heartbeatPeer) hold(key, version string) Held {
	h := &heartbeatHeld{peer: p, key: key, version: version, stop: make(chan struct{})}
	p.beats.Go(h.beat)
	return h
}

func (p *heartbeatPeer) Close() {
	p.beats.Wait()
	_ = p.db.Close()
}

type heartbeatHeld struct {
	peer *heartbeatPeer
	key  string
	stop chan struct{}

	mu      sync.Mutex
	version string
}

// beat changes the version four times in a lease.
func (h *heartbeatHeld) beat() {
	ticker := time.NewTicker(h.peer.lease / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if h.replace(rand.Text()) != nil {
				return
			}
		case <-h.stop:
			return
		}
	}
}

// replace writes another version, or none if it is "".
func (h *heartbeatHeld) replace(version string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := sql.NullString{String: version, Valid: version != ""}
	return h.peer.inTx(context.Background(), func(tx *sql.Tx) error {
		r, err := tx.Exec(h.peer.sql.write, next, h.key, h.version)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errNotHeld)
		}
		h.version = version
		return nil
	})
}

func (h *heartbeatHeld) Unlock() error {
	err := h.replace("")
	close(h.stop)
	return err
}
