package open

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/unsent"
)

// mysqlHosts tries several servers in the order of the URL, and connects to the first one that
// takes writes. Libpq does the same with target_session_attrs=read-write.
type mysqlHosts struct {
	all   []mysqlHost
	limit time.Duration // how long one connection may take to open
}

type mysqlHost struct {
	sqldriver.Connector
	addr string
}

// Connect implements driver.Connector of database/sql. Its error has the reason of each host.
// The error is also driver.ErrNotExecuted of Holdfast, because no statement was sent for a lock.
func (h *mysqlHosts) Connect(ctx context.Context) (sqldriver.Conn, error) {
	var failed error
	for i, host := range h.all {
		limit := h.limit
		if deadline, ok := ctx.Deadline(); ok { // a silent host must leave time for the next hosts
			limit = min(limit, time.Until(deadline)/time.Duration(len(h.all)-i))
		}
		conn, err := host.connect(ctx, limit)
		if err == nil {
			return conn, nil
		}
		if err = unsent.Error(err); !strings.Contains(err.Error(), host.addr) {
			err = fmt.Errorf("%s: %w", host.addr, err)
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return nil, failed
}

// Driver implements driver.Connector of database/sql.
func (h *mysqlHosts) Driver() sqldriver.Driver { return h.all[0].Driver() }

func (h mysqlHost) connect(ctx context.Context, limit time.Duration) (sqldriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := h.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := takesWrites(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// askReadOnly is a query whose result has no rows if the server takes writes. It is not a
// SELECT, because MariaDB and MySQL have different variables, and a SELECT of an unknown
// variable is an error.
const askReadOnly = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'innodb_read_only') AND Value <> 'OFF'`

func takesWrites(ctx context.Context, conn sqldriver.Conn) error {
	found, err := conn.(sqldriver.QueryerContext).QueryContext(ctx, askReadOnly, nil)
	if err != nil {
		return err
	}
	defer found.Close()
	row := make([]sqldriver.Value, 2)
	if err := found.Next(row); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("the server takes no writes: %s is %s", row[0], row[1])
}
