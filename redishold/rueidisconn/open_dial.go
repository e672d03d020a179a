package rueidisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/internal/unsent"
)

// transport makes the connections of a client.
type transport struct {
	network string
	named   string                                                            // the host of a URL with one host, because certificates may be for that name; otherwise ""
	connect func(ctx context.Context, network, addr string) (net.Conn, error) // Options.Dial; nil for a net.Dialer

	closed        atomic.Int64  // number of connections that were closed
	silentServers silentServers // remembers servers only if the URL has Sentinels

	answers bounded.Memory // what the answers on all connections take

	// open ends when no connection may be open any more. It is needed because rueidis does not
	// close a connection that it makes while the program closes the client.
	open context.Context //nolint:containedctx // it is the client's, not a call's
}

// errSilent means that a connection was not made in time.
var errSilent = errors.New("no connection within")

// dial makes a connection for rueidis, which is closed when t.open ends. ctx belongs to the first
// caller, but other callers wait for the same connection and must not fail with ctx. So dial
// ignores the end of ctx.
func (t *transport) dial(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if t.silentServers.has(addr) {
		return nil, unsent.Error(fmt.Errorf("dial %s: the server did not answer a moment ago", addr))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(t.open, cancel)()
	made, err := t.make(ctx, addr, d, config)
	if errors.Is(err, errSilent) {
		t.silentServers.add(addr)
	}
	if err != nil {
		return nil, err
	}
	c := &clientConn{Conn: made, closed: &t.closed, silent: func() { t.silentServers.add(addr) }}
	c.forget = context.AfterFunc(t.open, func() { _ = made.Close() })
	return c, nil
}

// make makes a connection that is bounded, with TLS if config is not nil. d.Timeout limits the time
// for the connection and TLS together.
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
		return nil, unsent.Error(err)
	}
	return bounded.Redis(conn, &t.answers), nil
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
