package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/importconf"
	"github.com/holdfast-go/holdfast/redishold/rueidisconn"
)

// store is where the locks are.
type store struct {
	*redishold.Backend
	conn     *rueidisconn.Conn
	where    string // the URL without passwords
	protocol string
	imported *importconf.Settings // nil without the file of a Java program
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
	if err := o.prepare(env, report); err != nil {
		return nil, err
	}
	address, source, err := o.address(env)
	if err != nil {
		return nil, err
	}
	engine, err := o.engine()
	if err != nil {
		return nil, err
	}
	a, err := o.access(ctx, address, env)
	if err != nil {
		return nil, err
	}
	o.warn(report, address)
	conn, err := a.Open(ctx)
	if err != nil {
		return nil, openError(ctx, source, err)
	}
	engine.Prefix, engine.Logger = o.prefix, o.logger
	return &store{
		Backend: redishold.New(conn, engine), conn: conn,
		where: placeOf(a), protocol: engine.Protocol.String(), imported: o.imported,
	}, nil
}

// openError gives the error of Open its status. What is neither the server's
// answer nor a failure to reach it is wrong with the URL, which came from source.
func openError(ctx context.Context, source string, err error) error {
	var reply *redishold.ReplyError
	if ctx.Err() == nil && !errors.Is(err, driver.ErrNotExecuted) && !errors.As(err, &reply) {
		return usageError("%s: %w", source, err)
	}
	return storeError(err)
}

// placeOf says where a store is, without what is secret.
func placeOf(a access.Access) string {
	if a.URL == "" && a.Imported != nil {
		return strings.Join(a.Imported.Nodes, " or ")
	}
	return access.Redacted(a.URL)
}
