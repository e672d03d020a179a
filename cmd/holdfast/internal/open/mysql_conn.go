package open

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/internal/bounded"
)

// afterPanic is how long no connection is made after the driver has panicked during a login. Then
// the driver leaves a goroutine behind, so logins must not be tried again and again.
const afterPanic = 30 * time.Second

// boundedMySQL connects to a server, and refuses what no server sends. It turns a panic of the
// driver into an error: go-sql-driver/mysql 1.10.1 panics at packets that are too short.
type boundedMySQL struct {
	sqldriver.Connector
	addr     string
	refusals *refusals
	panicked atomic.Pointer[panicked] // the last panic during a login
}

// panicked is a panic of the driver.
type panicked struct {
	at  time.Time
	err error
}

// refusals remembers the last answer that was refused, because the driver returns only "invalid
// connection".
type refusals struct {
	last atomic.Pointer[bounded.Refusal]
}

// newMySQL returns a connector for config.
func newMySQL(config *mysql.Config, r *refusals) (sqldriver.Connector, error) {
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = bounded.MySQL(conn, r.last.Store)
		if dialed, ok := ctx.Value(dialedKey{}).(*net.Conn); ok {
			*dialed = conn
		}
		return conn, nil
	}
	c, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysql URL: %w", err)
	}
	return &boundedMySQL{Connector: c, addr: config.Addr, refusals: r}, nil
}

// Connect implements driver.Connector of database/sql.
func (c *boundedMySQL) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if p := c.panicked.Load(); p != nil && time.Since(p.at) < afterPanic {
		return nil, p.err
	}
	made, broken, err := c.connect(ctx)
	if broken {
		c.panicked.Store(&panicked{time.Now(), err})
	}
	if err != nil {
		return nil, c.refusals.explain(err)
	}
	return &mysqlConn{fullConn: made.(fullConn), addr: c.addr, refusals: c.refusals}, nil
}

// connect connects, and reports whether the driver panicked.
func (c *boundedMySQL) connect(ctx context.Context) (made sqldriver.Conn, broken bool, err error) {
	var dialed net.Conn
	defer func() {
		if broken && dialed != nil {
			_ = dialed.Close()
		}
	}()
	defer recoverMySQL(&err, c.addr, &broken)
	made, err = c.Connector.Connect(context.WithValue(ctx, dialedKey{}, &dialed))
	return made, false, err
}

// dialedKey is the key of a *net.Conn in a context, which is set to the connection that was made
// with that context.
type dialedKey struct{}

// explain returns err with the reason for which the connection was closed, if that is known, and
// with a remedy in place of the one of the driver.
func (r *refusals) explain(err error) error {
	switch refusal := r.last.Swap(nil); {
	case refusal != nil && (errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sqldriver.ErrBadConn)):
		return fmt.Errorf("%w: %w", err, refusal)
	case errors.Is(err, mysql.ErrCleartextPassword):
		return errors.New("the server asked for the password in clear text, and does not get it: give the user another way to log in, such as the plugin caching_sha2_password; if that is not your server, somebody else answers at its address")
	case err != nil && strings.HasPrefix(err.Error(), "local file "):
		return errors.New("the server asked for a file of this machine, which it does not get: a MySQL does so only if a statement names the file")
	}
	return err
}

// recoverMySQL turns a panic of the driver into an error, for a deferred call. `addr` is the
// server. recoverMySQL also sets *broken, so that the connection is not used again.
func recoverMySQL(err *error, addr string, broken *bool) {
	if p := recover(); p != nil {
		// The outcome is unknown, so this is not driver.ErrBadConn, after which database/sql
		// repeats the statement.
		refusal := &bounded.Refusal{Addr: addr, Reason: fmt.Sprintf("it sent what no MySQL or MariaDB sends (%v)", p)}
		*err = fmt.Errorf("%w: %w", mysql.ErrInvalidConn, refusal)
		*broken = true
	}
}

// fullConn has the methods of a connection that database/sql uses.
type fullConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ConnPrepareContext
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
	sqldriver.NamedValueChecker
}

// mysqlConn is a connection of which a panic is an error.
type mysqlConn struct {
	fullConn
	addr     string
	refusals *refusals
	broken   bool
}

// IsValid implements driver.Validator of database/sql.
func (c *mysqlConn) IsValid() bool { return !c.broken && c.fullConn.IsValid() }

// QueryContext implements driver.QueryerContext of database/sql.
func (c *mysqlConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (rows sqldriver.Rows, err error) {
	defer recoverMySQL(&err, c.addr, &c.broken)
	found, err := c.fullConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, c.refusals.explain(err)
	}
	return &mysqlRows{found, c}, nil
}

// ExecContext implements driver.ExecerContext of database/sql.
func (c *mysqlConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (result sqldriver.Result, err error) {
	defer recoverMySQL(&err, c.addr, &c.broken)
	result, err = c.fullConn.ExecContext(ctx, query, args)
	return result, c.refusals.explain(err)
}

// PrepareContext implements driver.ConnPrepareContext of database/sql.
func (c *mysqlConn) PrepareContext(ctx context.Context, query string) (s sqldriver.Stmt, err error) {
	defer recoverMySQL(&err, c.addr, &c.broken)
	return c.fullConn.PrepareContext(ctx, query)
}

// Ping implements driver.Pinger of database/sql.
func (c *mysqlConn) Ping(ctx context.Context) (err error) {
	defer recoverMySQL(&err, c.addr, &c.broken)
	return c.fullConn.Ping(ctx)
}

// BeginTx implements driver.ConnBeginTx of database/sql.
func (c *mysqlConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (tx sqldriver.Tx, err error) {
	defer recoverMySQL(&err, c.addr, &c.broken)
	begun, err := c.fullConn.BeginTx(ctx, o)
	if err != nil {
		return nil, c.refusals.explain(err)
	}
	return &mysqlTx{begun, c}, nil
}

// mysqlRows is a result of which a panic is an error.
type mysqlRows struct {
	sqldriver.Rows
	conn *mysqlConn
}

// Next implements driver.Rows of database/sql.
func (r *mysqlRows) Next(row []sqldriver.Value) (err error) {
	defer recoverMySQL(&err, r.conn.addr, &r.conn.broken)
	return r.conn.refusals.explain(r.Rows.Next(row))
}

// Close implements driver.Rows of database/sql.
func (r *mysqlRows) Close() (err error) {
	defer recoverMySQL(&err, r.conn.addr, &r.conn.broken)
	return r.Rows.Close()
}

// mysqlTx is a transaction of which a panic is an error.
type mysqlTx struct {
	sqldriver.Tx
	conn *mysqlConn
}

// Commit implements driver.Tx of database/sql.
func (t *mysqlTx) Commit() (err error) {
	defer recoverMySQL(&err, t.conn.addr, &t.conn.broken)
	return t.conn.refusals.explain(t.Tx.Commit())
}

// Rollback implements driver.Tx of database/sql.
func (t *mysqlTx) Rollback() (err error) {
	defer recoverMySQL(&err, t.conn.addr, &t.conn.broken)
	return t.conn.refusals.explain(t.Tx.Rollback())
}
