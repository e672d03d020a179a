package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/zkhold"
)

// zooKeeperTarget returns the Target of a ZooKeeper:
// zk://[user:password@]host[:port],host[:port],...[/path], or zks with TLS. The names of
// locks are below the path. The parameter is dial_timeout.
func zooKeeperTarget(r Request) (*Target, error) {
	z, err := zooKeeperOf(r)
	if err != nil {
		return nil, err
	}
	shape := func() driver.Backend { return zkhold.New(z.servers, z.options) }
	return &Target{shape: shape, open: func(ctx context.Context) (*Store, error) {
		if _, err := z.version(ctx); err != nil {
			return nil, err
		}
		backend := zkhold.New(z.servers, z.options)
		ask := examine.ZooKeeper(z.servers, z.words)
		return &Store{Kind: ZooKeeper, Backend: backend, Ask: ask, where: strings.Join(z.servers, ", "), trouble: zooKeeperTrouble(z), close: backend.Close, ping: z.version}, nil
	}}, nil
}

// zooKeeper has the servers of an ensemble, and how to reach them.
type zooKeeper struct {
	servers []string
	options *zkhold.Options
	limit   time.Duration // for a server to answer the first time
	tls     *tls.Config
}

func zooKeeperOf(r Request) (*zooKeeper, error) {
	a, err := cut(ZooKeeper, r.Access.URL, "dial_timeout")
	if err != nil {
		return nil, err
	}
	z := &zooKeeper{options: &zkhold.Options{TTL: r.TTL, Root: strings.TrimSuffix(a.path, "/")}}
	if z.servers, err = a.addrs("2181"); err != nil {
		return nil, err
	}
	inURL, err := a.duration("dial_timeout")
	if err != nil {
		return nil, err
	}
	z.limit = dialLimit(r.Access, inURL)
	user, password := cmp.Or(r.Access.Username, a.username), cmp.Or(r.Access.Password, a.password)
	switch {
	case (user == "") != (password == ""):
		return nil, errors.New("zookeeper wants a user and a password, or neither")
	case user != "":
		z.options.Auth = []zkhold.Credentials{{Scheme: "digest", Auth: user + ":" + password}}
	}
	if z.tls, err = a.tls(r); err != nil {
		return nil, err
	}
	if z.tls != nil {
		z.options.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return z.dial(ctx, network, address)
		}
	}
	return z, nil
}

func (z *zooKeeper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if z.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: z.tls}).DialContext(ctx, network, address)
}

// version asks the servers for their version, and returns that of the first that answers.
func (z *zooKeeper) version(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, z.limit)
	defer cancel()
	version, err := anyVersion(limited, z.servers, z.ask)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer in time: %w", err)
		}
		return "", unreachable(ZooKeeper, strings.Join(z.servers, ", "), err)
	}
	return version, nil
}

// ask returns the version of a server. It is "unknown" for a server that does not allow the
// command srvr.
func (z *zooKeeper) ask(ctx context.Context, server string) (string, error) {
	said, err := z.words(ctx, server, "srvr")
	if err != nil {
		return "", err
	}
	if version, ok := strings.CutPrefix(said, "Zookeeper version: "); ok {
		version, _, _ = strings.Cut(version, "\n")
		version, _, _ = strings.Cut(version, "-")
		return strings.TrimSpace(version), nil
	}
	return "unknown", nil
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
