package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// transport is how the connections of a client are made.
type transport struct {
	network string
	named   string                                                            // the host of a URL that names one: certificates may be for it
	connect func(ctx context.Context, network, addr string) (net.Conn, error) // nil for the net.Dialer

	silences *silences // nil unless the servers are Sentinels and what they name
}

// dialError marks an error as one of making a connection, TLS included.
type dialError struct{ cause error }

// Error returns the cause's text.
func (e *dialError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.cause }

// dial makes a connection for rueidis, which makes one for all who wait for it,
// with the context of the first; the others must not fail with it.
func (t transport) dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if t.silences == nil {
		return t.make(context.WithoutCancel(ctx), addr, d, config)
	}
	if err := t.silences.check(addr); err != nil {
		return nil, &dialError{err}
	}
	conn, err := t.make(context.WithoutCancel(ctx), addr, d, config)
	switch {
	case err == nil:
		return t.silences.listen(conn, addr), nil
	case errors.Is(err, errSilent):
		t.silences.note(addr)
	}
	return nil, err
}

// errSilent says that a connection was not made in time.
var errSilent = errors.New("no connection within")

// make makes a connection, with TLS on top if config says so.
func (t transport) make(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	connect := t.connect
	if connect == nil {
		connect = d.DialContext
	}
	conn, err := connect(ctx, t.network, addr)
	if err == nil && config != nil {
		conn, err = handshake(ctx, conn, t.forServer(config, addr))
	}
	if errors.Is(err, context.DeadlineExceeded) || timedOut(err) {
		err = fmt.Errorf("dial %s: %w %v", addr, errSilent, d.Timeout) // which is not the end of a caller's context
	}
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

func handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// forServer returns config for the server at addr; Options.TLS tells the rule. A
// cluster that is known by one name often tells bare IP addresses of its nodes,
// for which there are no certificates.
func (t transport) forServer(config *tls.Config, addr string) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if t.named != "" && net.ParseIP(t.named) == nil && net.ParseIP(host) != nil {
		host = t.named
	}
	config = config.Clone()
	config.ServerName = host
	return config
}
