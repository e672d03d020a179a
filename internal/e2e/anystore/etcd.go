package anystore

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/etcdhold"
	"github.com/holdfast-go/holdfast/internal/e2e/etcdtest"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
)

// Etcd is etcd. Its Run starts a cluster of one member.
func Etcd() *Kind {
	return &Kind{
		Name: "etcd", Title: "etcd", Column: "etcd", Command: "etcd",
		Run: runEtcd, Cluster: etcdCluster,
		New: func() driver.Backend { return etcdhold.New(nil, nil) },

		Dial: etcdWith(soon), Default: etcdWith(), Crowd: etcdWith(soon), Locker: etcdLocker,
		Lossy: lossyEtcd, Counted: countedEtcd, Ask: askEtcd,
		Bounds: func(c manytest.Crowd) manytest.Bounds { // renewals without an answer make connections
			return manytest.Bounds{Requests: 100 + 2*c.Waiters, Connections: 40}
		},

		Refusals:   []Refusal{{"no permission", etcdWithoutPermission}},
		Unwell:     unwellEtcd,
		Page:       etcdPage,
		URL:        func(addr string) string { return "etcd://" + addr },
		ReleaseURL: func(addr string) string { return "http://" + addr },

		Queues: true,
		Elsewhere: []Elsewhere{
			{Fault: "F40", Want: "A", Test: "etcdholdtest.TestLeaderDies"},
			{Fault: "F41", Want: "LU", Test: "etcdholdtest.TestLeaderStandsStill", Notified: "TTL/3, and the time of a call"},
			{Fault: "F42", Want: "L", Test: "etcdholdtest.TestHolderAndLeaderAreGone"},
			{Fault: "F43", Want: "A", Test: "etcdholdtest.TestFollowerStandsStill"},
		},
		Without: map[string]string{
			"F44": "no standby", "F45": "no standby", "F46": "no standby",
			"F47": "the client keeps its connection busy, and F8", "F48": "the client keeps its connection busy, and F8",
			"F49": "no pooler",
		},
	}
}

func runEtcd(dir string) (*Store, error) {
	s, err := etcdtest.Run(dir)
	if err != nil {
		return nil, noStore(etcdtest.ProgramEnv, err)
	}
	client, err := s.Dial()
	if err != nil {
		s.Kill()
		return nil, err
	}
	held := func(ctx context.Context) (names []string, err error) {
		r, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return nil, err
		}
		for _, kv := range r.Kvs {
			if key := string(kv.Key); !strings.HasPrefix(key, "holdfast.forced/") { // a reason, which passes
				names = append(names, key)
			}
		}
		return names, nil
	}
	kept := func(ctx context.Context, name string) (int, error) {
		r, err := client.Get(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return 0, err
		}
		return int(r.Count), nil
	}
	cost := func() (Cost, error) {
		c, err := s.Cost()
		return Cost{Requests: c.Requests, Connections: c.Connections, Busy: c.Busy}, err
	}
	shut := func() {
		_ = client.Close()
		s.Kill()
	}
	return &Store{Server: s, Kind: Etcd(), Addr: etcdAddr(s), Held: held, Kept: kept, Cost: cost, Close: shut}, nil
}

// etcdAddr is the address of a server without its scheme.
func etcdAddr(s *etcdtest.Server) string { return strings.TrimPrefix(s.Addr(), "http://") }

func etcdCluster(t testing.TB) Cluster {
	var addrs []string
	members := etcdtest.StartCluster(t, 3) // the first leads
	for _, m := range members {
		addrs = append(addrs, etcdAddr(m))
	}
	return Cluster{Addr: strings.Join(addrs, ","), KillLeader: func() error {
		members[0].Kill()
		return nil
	}}
}

// etcdWith opens clients of the members at an address, "host:port,host:port", with settings that
// change makes.
func etcdWith(change ...func(*clientv3.Config)) Open {
	return func(addr string, ttl time.Duration) (driver.Backend, func(), error) {
		config := clientv3.Config{Logger: zap.NewNop()}
		for member := range strings.SplitSeq(addr, ",") {
			config.Endpoints = append(config.Endpoints, "http://"+member)
		}
		for _, fn := range change {
			fn(&config)
		}
		client, err := clientv3.New(config)
		if err != nil {
			return nil, nil, err
		}
		return etcdhold.New(client, &etcdhold.Options{TTL: ttl}), func() { _ = client.Close() }, nil
	}
}

func etcdLocker(addr string, opts *holdfast.Options) (*holdfast.Locker, func(), error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	return etcdhold.Locker(client, opts), func() { _ = client.Close() }, nil
}

// soon has a client give up a silent link, and try it again soon.
func soon(c *clientv3.Config) {
	c.DialKeepAliveTime, c.DialKeepAliveTimeout = time.Second, time.Second
	c.DialOptions = append(c.DialOptions, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
		MinConnectTimeout: time.Second,
	}))
}

func lossyEtcd() *Losses {
	loss := &etcdtest.Loss{}
	open := etcdWith(func(c *clientv3.Config) { c.DialOptions = loss.Options() })
	return &Losses{Open: open, Lost: loss.Lost, Heal: loss.Heal}
}

// countedEtcd counts transactions: there is one for each call of Renew.
func countedEtcd(*Store) Counted {
	var sent atomic.Int64
	count := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if path.Base(method) == "Txn" {
			sent.Add(1)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	open := etcdWith(func(c *clientv3.Config) { c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(count)) })
	return Counted{Open: open, Requests: func() int { return int(sent.Load()) }, Each: 1}
}

func askEtcd(ctx context.Context, addr string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	_, err = client.Get(ctx, "any")
	return errors.Join(err, client.Close())
}
