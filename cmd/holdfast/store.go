package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strings"

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
	url, prefix string
	logger      *slog.Logger
}

// openStore opens the store that the URL or the environment names. A URL on the
// command line is obeyed even with a password in it, with a warning: everybody
// on the machine can read it.
func openStore(ctx context.Context, o storeOptions, env environment, report *reporter) (*store, error) {
	address, err := storeURL(o.url, env)
	if err != nil {
		return nil, err
	}
	password, err := storePassword(address, env)
	if err != nil {
		return nil, err
	}
	if o.url != "" && hasPassword(address) {
		report.warn("every user of this machine can read the password in --url; use HOLDFAST_URL, REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")
	}
	conn, err := rueidisconn.Open(ctx, address.String(), &rueidisconn.Options{Password: password})
	if err != nil {
		return nil, openError(ctx, err)
	}
	backend := redishold.New(conn, &redishold.Options{Prefix: o.prefix, Logger: o.logger})
	return &store{Backend: backend, conn: conn}, nil
}

// openError gives the error of Open its status. What is neither the server's
// answer nor a failure to reach it is wrong with the URL.
func openError(ctx context.Context, err error) error {
	var reply *redishold.ReplyError
	if ctx.Err() == nil && !errors.Is(err, driver.ErrNotSent) && !errors.As(err, &reply) {
		return usageError("%w", err)
	}
	return storeError(err)
}

func storeURL(flag string, env environment) (*url.URL, error) {
	text, source := flag, "--url"
	for _, name := range []string{"HOLDFAST_URL", "REDIS_URL"} {
		if text == "" {
			text, _ = env.lookup(name)
			source = name
		}
	}
	if text == "" {
		return nil, usageError("no store named; use --url redis://host:6379/0, or set HOLDFAST_URL")
	}
	if !strings.Contains(text, "://") {
		return nil, usageError("%s is no URL; use one such as redis://host:6379/0", source)
	}
	address, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse shows the whole text, with the password.
		if why := (*url.Error)(nil); errors.As(err, &why) {
			err = why.Err
		}
		if strings.Contains(text, "@") {
			err = errors.New("it is malformed; a password needs %-encoding, so @ is %40")
		}
		return nil, usageError("%s: %w", source, err)
	}
	return address, nil
}

func hasPassword(address *url.URL) bool {
	password, set := address.User.Password()
	return set && password != ""
}

// storePassword returns the password for a URL that has none.
func storePassword(address *url.URL, env environment) (string, error) {
	if _, set := address.User.Password(); set {
		return "", nil
	}
	if password, ok := env.lookup("REDISCLI_AUTH"); ok {
		return password, nil
	}
	file, ok := env.lookup("HOLDFAST_PASSWORD_FILE")
	if !ok {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", usageError("HOLDFAST_PASSWORD_FILE: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
