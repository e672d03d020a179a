package pghold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/rows"
)

const (
	// listenIdle is the time without a message after which Listen tests the connection.
	// listenLimit bounds the time of that test, and of making the connection.
	listenIdle  = 5 * time.Second
	listenLimit = 5 * time.Second
)

// Listen receives the notifications of releases on a connection of its own.
func (t *table) Listen(ctx context.Context, live func(), heard func(name, next string)) error {
	conn, err := t.subscribe(ctx)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	live()
	for {
		wait, cancel := context.WithTimeout(ctx, listenIdle)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			next, name, _ := strings.Cut(n.Payload, "\n")
			heard(rows.Unescape(name), next)
			continue
		case ctx.Err() != nil || wait.Err() == nil:
			return err
		}
		try, cancel := context.WithTimeout(ctx, listenLimit)
		err = conn.Ping(try)
		cancel()
		if err != nil {
			return err
		}
	}
}

// subscribe makes a connection that listens to the channel. It returns
// errors.ErrUnsupported if the connection leads to a pooler, which accepts LISTEN and delivers
// no notifications.
func (t *table) subscribe(ctx context.Context) (*pgx.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, listenLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(limited, t.listen.Copy())
	if err != nil {
		return nil, err
	}
	direct, err := leadsToServer(limited, conn)
	if err == nil && !direct {
		err = fmt.Errorf("pghold: Options.Listen leads to a pooler, which does not deliver notifications: %w", errors.ErrUnsupported)
		if !t.warned.Swap(true) {
			t.log.Warn("waiters poll the rows of their locks", "err", err)
		}
	}
	if err == nil {
		_, err = conn.Exec(limited, "LISTEN "+pgx.Identifier{t.channel}.Sanitize(), pgx.QueryExecModeExec)
	}
	if err != nil {
		closeConn(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// closeConn closes conn, also if ctx has ended.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the connection has no state that an error could lose
}
