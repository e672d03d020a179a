package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// store is where the locks are.
type store struct {
	*redishold.Backend
	conn *rueidisconn.Conn
}

func (s *store) close() { s.conn.Close() }

// storeOptions say which store, and how.
type storeOptions struct {
	connectOptions
	prefix string
	logger *slog.Logger
}

// openStore opens the store that the flags or the environment name.
func openStore(ctx context.Context, o storeOptions, env environment, report *reporter) (*store, error) {
	address, source, err := o.address(env)
	if err != nil {
		return nil, err
	}
	a, err := o.access(ctx, address, env, report)
	if err != nil {
		return nil, err
	}
	conn, err := a.Open(ctx)
	if err != nil {
		return nil, openError(ctx, source, err)
	}
	backend := redishold.New(conn, &redishold.Options{Prefix: o.prefix, Logger: o.logger})
	return &store{Backend: backend, conn: conn}, nil
}

// openError gives the error of Open its status. What is neither the server's
// answer nor a failure to reach it is wrong with the URL, which came from source.
func openError(ctx context.Context, source string, err error) error {
	var reply *redishold.ReplyError
	if ctx.Err() == nil && !errors.Is(err, driver.ErrNotSent) && !errors.As(err, &reply) {
		return usageError("%s: %w", source, err)
	}
	return storeError(err)
}
