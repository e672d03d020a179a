//go:build unix

package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// Losses are connections that lose answers: the server has executed what it was sent.
type Losses struct {
	Percent atomic.Int64 // of what is written, that is executed and not answered
	Lost    atomic.Int64 // answers, so far
}

// On returns conn as one of them.
func (l *Losses) On(conn net.Conn) net.Conn { return &lossy{Conn: conn, losses: l} }

type lossy struct {
	net.Conn
	losses *Losses
	loses  atomic.Bool
}

func (l *lossy) Write(b []byte) (int, error) {
	if rand.Int64N(100) < l.losses.Percent.Load() {
		l.loses.Store(true)
	}
	return l.Conn.Write(b)
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err == nil && l.loses.Load() {
		l.losses.Lost.Add(1)
		_ = l.Close()
		return 0, errors.New("the answer is lost")
	}
	return n, err
}

// LossyMySQL returns a pool to a database of MySQL or MariaDB whose connections lose answers.
func LossyMySQL(dsn string, losses *Losses) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return losses.On(conn), nil
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(4)
	return db, nil
}
