package rueidisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Options are the settings of Open that a URL does not carry, or that shall not
// stand in one. A zero field means its default.
type Options struct {
	Username string // instead of the URL's
	Password string // instead of the URL's

	TLS        *tls.Config // for rediss:// and valkeys://; default: the system's roots, TLS 1.2 or newer
	ClientName string      // what CLIENT LIST shows; default "holdfast"

	DialTimeout time.Duration // for a connection and, again, for its handshake; default 2s

	// PingTimeout is how long the server may leave a PING unanswered before its
	// connection counts as dead and is replaced; default 1.5s. A PING is sent
	// after half a second in which nothing was received, so that a dead link is
	// replaced after PingTimeout plus at most a second. It is the server's
	// silence that counts, not how long one call takes; but a server that stands
	// still for longer loses its connections, and calls under way end with an
	// unknown outcome.
	PingTimeout time.Duration
}

// Memory of a connection, which carries short commands and short answers, and
// how often a silent one is looked at. rueidis' own defaults take about 1.4 MiB
// for a client.
const (
	ringScale  = 8       // 256 commands under way on a connection; more wait for a place
	bufferSize = 1 << 14 // each for reading and writing
	pingAfter  = 500 * time.Millisecond
	poolIdle   = time.Minute // for connections that carried a WAIT
)

// Open connects to the server that url names and returns when it has answered.
// Without one, with a wrong password, or if ctx ends, it fails at once. An error
// that is driver.ErrNotSent or a *redishold.ReplyError tells the two first cases
// apart; no error contains the password. The Conn must be closed.
//
// The URL is one of
//
//	redis://[user[:password]@]host[:port][/db]     valkey:// is the same
//	rediss://[user[:password]@]host[:port][/db]    with TLS; valkeys:// is the same
//	unix://[user[:password]@]/path/to/socket[?db=1]
//
// with the parameters addr (one more node of a cluster, may be repeated),
// client_name, db, dial_timeout, protocol (2 or 3), skip_verify and
// write_timeout (which is Options.PingTimeout). Any other parameter is an error.
// A cluster is recognised by itself.
func Open(ctx context.Context, url string, opts *Options) (*Conn, error) {
	option, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o.apply(&option)
	client, err := newClient(ctx, option)
	if err != nil {
		return nil, openError(ctx, option, err)
	}
	c := New(client)
	c.own = true
	return c, nil
}

// apply completes what the URL says.
func (o Options) apply(option *rueidis.ClientOption) {
	option.Username = cmp.Or(o.Username, option.Username)
	option.Password = cmp.Or(o.Password, option.Password)
	option.ClientName = cmp.Or(o.ClientName, option.ClientName, "holdfast")
	if o.TLS != nil && option.TLSConfig != nil {
		own := o.TLS.Clone()
		own.ServerName = cmp.Or(own.ServerName, option.TLSConfig.ServerName)
		own.InsecureSkipVerify = own.InsecureSkipVerify || option.TLSConfig.InsecureSkipVerify
		option.TLSConfig = own
	}
	option.Dialer.Timeout = cmp.Or(o.DialTimeout, option.Dialer.Timeout, 2*time.Second)
	option.Dialer.KeepAlive = pingAfter // also how long rueidis waits before it sends a PING
	option.ConnWriteTimeout = cmp.Or(o.PingTimeout, option.ConnWriteTimeout, 1500*time.Millisecond)
	option.RingScaleEachConn = ringScale
	option.ReadBufferEachConn = bufferSize
	option.WriteBufferEachConn = bufferSize
	option.PipelineMultiplex = -1 // one connection
	option.BlockingPoolCleanup = poolIdle
	option.DisableCache = true
	option.DisableRetry = true
	option.AlwaysPipelining = true // otherwise a lone call with a deadline gives up the connection at it
	option.DialCtxFn = dial("tcp")
	if len(option.InitAddress) > 0 && option.InitAddress[0] != "" && option.InitAddress[0][0] == '/' {
		option.DialCtxFn = dial("unix")
	}
}

// dialError marks an error as one of making a connection, TLS included.
type dialError struct{ cause error }

// Error returns the cause's text.
func (e *dialError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *dialError) Unwrap() error { return e.cause }

// dial returns how connections are made. rueidis makes one for all who wait for
// it, with the context of the first; the others must not fail with it.
func dial(network string) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (conn net.Conn, err error) {
		ctx = context.WithoutCancel(ctx)
		if config != nil {
			conn, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, addr)
		} else {
			conn, err = d.DialContext(ctx, network, addr)
		}
		if err != nil {
			return nil, &dialError{err}
		}
		return conn, nil
	}
}

type opened struct {
	client rueidis.Client
	err    error
}

// newClient makes a client within ctx, which rueidis does not take. A client
// that comes too late is closed.
func newClient(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	made := make(chan opened, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		made <- opened{client, err}
	}()
	select {
	case o := <-made:
		return o.client, o.err
	case <-ctx.Done():
		go func() {
			if o := <-made; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// openError says what could not be opened. Addresses are no secrets; the rest of
// the URL stays out.
func openError(ctx context.Context, option rueidis.ClientOption, err error) error {
	where := option.InitAddress[0]
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return fmt.Errorf("open redis at %s: %w", where, &redishold.ReplyError{Text: reply.Error()})
	}
	err = adapter.Classify(ctx, err, errors.As(err, new(*dialError)))
	return fmt.Errorf("open redis at %s: %w", where, err)
}
