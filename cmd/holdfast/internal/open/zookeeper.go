package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/zkhold"
)

// zooKeeper has the servers of an ensemble, and how to reach them.
type zooKeeper struct {
	servers []string
	options *zkhold.Options
	limit   time.Duration // for a server to answer the first time
	tls     *tls.Config
}

// parseZooKeeper reads zk://[user:password@]host[:port],host[:port],...[/path], or zks with
// TLS. The names of locks are below the path. The parameter is dial_timeout.
func parseZooKeeper(r Request) (*zooKeeper, error) {
	a := cut(ZooKeeper, r.Access, "dial_timeout")
	z := &zooKeeper{
		servers: a.addrs(), limit: a.dialLimit(), tls: a.tls(),
		options: &zkhold.Options{TTL: r.TTL, Root: strings.TrimSuffix(a.path, "/")},
	}
	if user, password := a.login(); user != "" {
		z.options.Auth = []zkhold.Credentials{{Scheme: "digest", Auth: user + ":" + password}}
	}
	if z.tls != nil {
		z.options.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return z.dial(ctx, network, address)
		}
	}
	return z, a.err
}

func (z *zooKeeper) backend() driver.Backend { return zkhold.New(z.servers, z.options) }

func (z *zooKeeper) open(ctx context.Context) (*Store, error) {
	backend := zkhold.New(z.servers, z.options)
	s := &Store{
		Kind: ZooKeeper, Backend: backend, ask: examine.ZooKeeper(z.servers, z.words),
		hosts: strings.Join(z.servers, ", "), state: z.state, close: backend.Close,
	}
	return s.ready(ctx, z.limit, false)
}

func (z *zooKeeper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if z.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: z.tls}).DialContext(ctx, network, address)
}

// state asks the servers with the command srvr. The version is "unknown" if a server does not
// allow it. A server without a majority reports that it does not serve requests.
func (z *zooKeeper) state(ctx context.Context) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, z.limit)
	defer cancel()
	return anyState(ctx, z.servers, func(ctx context.Context, server string) (state, error) {
		said, err := z.words(ctx, server, "srvr")
		now := state{version: "unknown"}
		if version, ok := strings.CutPrefix(said, "Zookeeper version: "); ok {
			now.version, _, _ = strings.Cut(version, "-") // the revision of its source follows
		}
		if strings.Contains(said, "not currently serving requests") {
			now.trouble = errNoMajority
		}
		return now, err
	})
}

// words sends a command of four letters, and returns the answer of the server.
func (z *zooKeeper) words(ctx context.Context, server, command string) (string, error) {
	conn, err := z.dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the calls below
	if _, err := conn.Write([]byte(command)); err != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	said, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if len(said) == 0 {
		return "", errors.Join(ctx.Err(), cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return string(said), nil // an error after the answer does not matter
}
