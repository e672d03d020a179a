package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/examine"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
)

const (
	// The client leaves a member that does not answer for the sum of these two. Servers
	// refuse keep-alives at shorter intervals.
	etcdKeepAlive        = 10 * time.Second
	etcdKeepAliveTimeout = 3 * time.Second
)

// reconnecting returns parameters with which the client tries a server again within two
// seconds. With the defaults the pauses grow to two minutes, and it takes 20 s to give up a
// server that accepts a connection and does not answer. A waiter that is next in a queue
// would meanwhile delay all other waiters.
func reconnecting() grpc.ConnectParams {
	pauses := backoff.DefaultConfig
	pauses.BaseDelay, pauses.MaxDelay = 100*time.Millisecond, time.Second
	return grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: etcdKeepAliveTimeout}
}

// etcdTarget returns the Target of an etcd:
// etcd://[user:password@]host[:port],host[:port],..., or etcds with TLS. The parameter is
// dial_timeout.
func etcdTarget(r Request) (*Target, error) {
	config, where, err := etcdConfig(r)
	if err != nil {
		return nil, err
	}
	options := &etcdhold.Options{TTL: r.TTL}
	shape := func() driver.Backend { return etcdhold.New(nil, options) }
	return &Target{shape: shape, open: func(ctx context.Context) (*Store, error) {
		client, err := dialEtcd(ctx, config)
		if err != nil {
			return nil, etcdError(where, err)
		}
		return &Store{
			Kind: Etcd, Backend: etcdhold.New(client, options), Ask: examine.Etcd(client), where: where, trouble: etcdTrouble(client), close: func() { _ = client.Close() }, // nothing is lost with it
			ping: func(ctx context.Context) (string, error) {
				version, err := anyVersion(ctx, client.Endpoints(), func(ctx context.Context, server string) (string, error) {
					r, err := client.Status(ctx, server)
					if err != nil {
						return "", err
					}
					return r.Version, nil
				})
				if err != nil {
					err = etcdError(where, err)
				}
				return version, err
			},
		}, nil
	}}, nil
}

// etcdConfig returns the settings of the client, and where the servers are.
func etcdConfig(r Request) (config clientv3.Config, where string, err error) {
	a, err := cut(Etcd, r.Access.URL, "dial_timeout")
	if err != nil {
		return config, "", err
	}
	if a.path != "" && a.path != "/" {
		return config, "", errors.New("etcd URL has a path: the name of a lock is the beginning of its keys as it stands, so put it there")
	}
	addrs, err := a.addrs("2379")
	if err != nil {
		return config, "", err
	}
	inURL, err := a.duration("dial_timeout")
	if err != nil {
		return config, "", err
	}
	config = clientv3.Config{
		Username: cmp.Or(r.Access.Username, a.username), Password: cmp.Or(r.Access.Password, a.password),
		DialTimeout:       dialLimit(r.Access, inURL),
		DialKeepAliveTime: etcdKeepAlive, DialKeepAliveTimeout: etcdKeepAliveTimeout,
		Logger:      zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnecting())},
	}
	if (config.Username == "") != (config.Password == "") {
		return config, "", errors.New("etcd wants a user and a password, or neither: certificates say who somebody is without them")
	}
	if config.TLS, err = a.tls(r); err != nil {
		return config, "", err
	}
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
		if name := config.TLS.ServerName; name != "" {
			config.DialOptions = append(config.DialOptions, grpc.WithTransportCredentials(named{credentials.NewTLS(config.TLS), name}))
		}
	}
	for _, addr := range addrs {
		config.Endpoints = append(config.Endpoints, scheme+addr)
	}
	return config, strings.Join(addrs, ", "), nil
}

// named makes the client expect the same name in the certificates of all servers. By default
// the client of etcd expects the host of each server, whatever the configuration of TLS says.
type named struct {
	credentials.TransportCredentials
	name string
}

// ClientHandshake implements credentials.TransportCredentials.
func (n named) ClientHandshake(ctx context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return n.TransportCredentials.ClientHandshake(ctx, n.name, conn)
}

// Clone implements credentials.TransportCredentials.
func (n named) Clone() credentials.TransportCredentials {
	return named{n.TransportCredentials.Clone(), n.name}
}

// dialEtcd connects, and returns the client when a server has answered.
func dialEtcd(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	limited, done := context.WithTimeout(ctx, config.DialTimeout)
	defer done()
	if err := probeEtcd(limited, config); err != nil {
		return nil, err
	}
	// The client logs in when it is made, for as long as its own context allows.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(limited, cancel)
	config.Context = own
	client, err := clientv3.New(config)
	if !detach() && err == nil {
		_ = client.Close() // its context has ended
		err = limited.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return client, nil
}

// probeEtcd returns nil when a server has answered. It uses a separate client that does not
// repeat calls. The client for locks repeats them until the time is over, and then does not
// say why they failed. probeEtcd does not log in: the answer that a login is missing is an
// answer, too.
func probeEtcd(ctx context.Context, config clientv3.Config) error {
	user := config.Username
	config.Username, config.Password, config.MaxUnaryRetries = "", "", 1
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = anyVersion(ctx, client.Endpoints(), func(ctx context.Context, server string) (string, error) {
		conn, err := client.Dial(server)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		// Unlike Status of the client, this call does not wait for a server that is down.
		r, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
		err = rpctypes.Error(err)
		if user != "" && errors.Is(err, rpctypes.ErrUserEmpty) {
			return "unknown", nil
		}
		return r.GetVersion(), err
	})
	return err
}

// anyVersion asks all servers, and returns the first version that it gets. If no server
// answers, it returns all errors.
func anyVersion(ctx context.Context, servers []string, ask func(ctx context.Context, server string) (string, error)) (string, error) {
	var version string
	var failed []error
	askAll(ctx, servers, ask, func(answer string, err error, cancel context.CancelFunc) {
		switch {
		case err != nil:
			failed = append(failed, err)
		case version == "":
			version = answer
			cancel()
		}
	})
	if version != "" {
		return version, nil
	}
	return "", errors.Join(failed...)
}

// etcdError returns the error for err, which came before a request for a lock: a refused
// user, or an unreachable store.
func etcdError(where string, err error) error {
	for _, no := range []error{
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken,
	} {
		if errors.Is(err, no) {
			return denied(Etcd, where, err)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer in time: %w", err)
	}
	return unreachable(Etcd, where, err)
}
