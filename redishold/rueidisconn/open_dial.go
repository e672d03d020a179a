package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
)

// transport makes the connections of a client.
type transport struct {
	network string
	named   string                                                            // the host of a URL with one host, because certificates may be for that name; otherwise ""
	connect func(ctx context.Context, network, addr string) (net.Conn, error) // Options.Dial; nil for a net.Dialer

	silentServers *silentServers // nil unless the URL has Sentinels

	// open ends when no connection may be open any more. It is needed because rueidis does not
	// close a connection that it makes while the program closes the client.
	open context.Context //nolint:containedctx // it is the client's, not a call's
}

// dialError is an error of making a connection, TLS included.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// dial makes a connection for rueidis. ctx belongs to the first caller, but other callers
// wait for the same connection and must not fail with ctx. So dial ignores the end of ctx.
func (t *transport) dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if t.silentServers == nil {
		return t.makeUntilEnd(ctx, addr, d, config)
	}
	if err := t.silentServers.check(addr); err != nil {
		return nil, &dialError{err}
	}
	conn, err := t.makeUntilEnd(ctx, addr, d, config)
	if err == nil {
		return &monitoredConn{Conn: conn, silent: func() { t.silentServers.note(addr) }}, nil
	}
	if errors.Is(err, errSilent) {
		t.silentServers.note(addr)
	}
	return nil, err
}

// errSilent means that a connection was not made in time.
var errSilent = errors.New("no connection within")

// makeUntilEnd makes a connection that is closed when t.open ends. It ignores the end of ctx.
func (t *transport) makeUntilEnd(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(t.open, cancel)()
	conn, err := t.make(ctx, addr, d, config)
	if err != nil {
		return nil, err
	}
	return &closingConn{conn, context.AfterFunc(t.open, func() { _ = conn.Close() })}, nil
}

// closingConn is a connection that is also closed when transport.open ends.
type closingConn struct {
	net.Conn
	forget func() bool
}

func (e *closingConn) Close() error {
	e.forget()
	return e.Conn.Close()
}

// make makes a connection, with TLS if config is not nil. d.Timeout limits the time for the
// connection and TLS together.
func (t *transport) make(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	connect := t.connect
	if connect == nil {
		connect = d.DialContext
	}
	conn, err := connect(ctx, t.network, addr)
	if err == nil && config != nil {
		secured := tls.Client(conn, t.forServer(config, addr))
		if err = secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
		}
		conn = secured
	}
	if errors.Is(err, context.DeadlineExceeded) || timedOut(err) {
		err = fmt.Errorf("dial %s: %w %v", addr, errSilent, d.Timeout) // without err as a cause: a timeout of dialling is not the end of a caller's context
	}
	if err != nil {
		return nil, &dialError{err}
	}
	return conn, nil
}

// forServer returns config with the name that the certificate of the server at addr must have.
// Options.TLS says which name that is. A cluster with one name often announces IP addresses of
// its nodes, for which there are no certificates.
func (t *transport) forServer(config *tls.Config, addr string) *tls.Config {
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
