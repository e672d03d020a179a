package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
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
		where: redacted(a), protocol: engine.Protocol.String(), imported: o.imported,
	}, nil
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

// redacted returns the URL of a store without what is secret in it. Of a URL that
// is not understood only the scheme is shown.
func redacted(a access.Access) string {
	if a.URL == "" && a.Imported != nil {
		return strings.Join(a.Imported.Nodes, " or ")
	}
	scheme, rest, ok := strings.Cut(a.URL, "://")
	if !ok {
		return ""
	}
	if _, err := url.Parse(a.URL); err != nil {
		return scheme + "://…" // who knows where the password is
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, _ := strings.Cut(rest[:at], ":")
		rest = rest[at:]
		if user != "" {
			rest = user + rest
		} else {
			rest = rest[1:]
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil || query == "" {
		return scheme + "://" + rest
	}
	access.HidePasswords(values, "***")
	return scheme + "://" + rest + "?" + values.Encode()
}
