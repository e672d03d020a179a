package open

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

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

// etcd has the settings of an etcd before the first connection.
type etcd struct {
	config  clientv3.Config
	options *etcdhold.Options
	hosts   string
}

// parseEtcd reads etcd://[user:password@]host[:port],host[:port],..., or etcds with TLS. The
// parameter is dial_timeout.
func parseEtcd(r Request) (*etcd, error) {
	a := cut(Etcd, r.Access, "dial_timeout")
	if a.path != "" && a.path != "/" {
		a.wrong("has a path: the name of a lock is the beginning of its keys as it stands, so put it there")
	}
	addrs := a.addrs()
	config := clientv3.Config{
		DialTimeout: a.dialLimit(), DialKeepAliveTime: etcdKeepAlive, DialKeepAliveTimeout: etcdKeepAliveTimeout,
		Logger:      zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnecting())},
		TLS:         a.tls(),
	}
	config.Username, config.Password = a.login()
	scheme := "http://"
	if config.TLS != nil {
		scheme = "https://"
		if name := config.TLS.ServerName; name != "" { // otherwise the client expects the host of each server
			config.DialOptions = append(config.DialOptions, grpc.WithAuthority(name))
		}
	}
	for _, addr := range addrs {
		config.Endpoints = append(config.Endpoints, scheme+addr)
	}
	return &etcd{config: config, options: &etcdhold.Options{TTL: r.TTL}, hosts: strings.Join(addrs, ", ")}, a.err
}

func (e *etcd) backend() driver.Backend { return etcdhold.New(nil, e.options) }

func (e *etcd) open(ctx context.Context) (*Store, error) {
	client, err := dialEtcd(ctx, e.config)
	if err != nil {
		return nil, failure(Etcd, e.hosts, err)
	}
	ask := func(ctx context.Context) (state, error) {
		return anyState(ctx, client.Endpoints(), func(ctx context.Context, server string) (state, error) {
			r, err := client.Status(ctx, server)
			if err != nil {
				return state{}, err
			}
			now := state{version: r.Version}
			if r.Leader == 0 { // a member knows a leader only if the leader is connected to a majority
				now.trouble = errNoMajority
			}
			return now, nil
		})
	}
	shut := func() { _ = client.Close() } // nothing is lost with it
	return &Store{Kind: Etcd, Backend: etcdhold.New(client, e.options), ask: examine.Etcd(client), hosts: e.hosts, state: ask, close: shut}, nil
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
	if !detach() { // the context of the client has ended
		if err == nil {
			_ = client.Close()
		}
		err = fmt.Errorf("no answer to the login in time: %w", limited.Err())
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
	_, err = anyState(ctx, client.Endpoints(), func(ctx context.Context, server string) (state, error) {
		conn, err := client.Dial(server)
		if err != nil {
			return state{}, err
		}
		defer conn.Close()
		// Unlike Status of the client, this call does not wait for a server that is down.
		_, err = etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
		err = rpctypes.Error(err)
		if user != "" && errors.Is(err, rpctypes.ErrUserEmpty) {
			err = nil
		}
		return state{}, err
	})
	return err
}
