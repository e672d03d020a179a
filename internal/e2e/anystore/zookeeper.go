package anystore

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/manytest"
	"github.com/holdfast-go/holdfast/internal/e2e/zktest"
	"github.com/holdfast-go/holdfast/zkhold"
)

// ZooKeeper is Apache ZooKeeper. Its Run starts one server.
func ZooKeeper() *Kind {
	return &Kind{
		Name: "zookeeper", Title: "ZooKeeper", Column: "ZooKeeper", Command: "ZooKeeper",
		Run: runZooKeeper, Cluster: zooKeeperEnsemble,
		New: func() driver.Backend { return zkhold.New([]string{"127.0.0.1:1"}, nil) },

		Dial: zooKeeperOver(nil), Default: zooKeeperOver(nil), Crowd: zooKeeperOver(nil), Locker: zooKeeperLocker,
		Lossy: lossyZooKeeper, Counted: countedZooKeeper, Ask: askZooKeeper,
		Bounds: func(c manytest.Crowd) manytest.Bounds {
			return manytest.Bounds{Requests: 150 + c.Waiters/2, Connections: 10}
		},

		Unwell: unwellZooKeeper,
		Page:   zooKeeperPage,
		URL:    func(addr string) string { return "zk://" + addr },

		Queues: true, TryQueues: true, TwoThirds: true, NoRemaining: true,
		Late:     zktest.Tick,
		Silences: 12 * time.Second,
		Elsewhere: []Elsewhere{
			{Fault: "F40", Want: "A", Test: "zkholdtest.TestLeaderDies"},
			{Fault: "F41", Want: "A", Test: "zkholdtest.TestLeaderStandsStill"},
			{Fault: "F43", Want: "A", Test: "zkholdtest.TestFollowerStandsStill"},
		},
		Without: map[string]string{
			"F42": Untested,
			"F44": "no standby", "F45": "no standby", "F46": "no standby",
			"F47": "the client keeps its connection busy, and F8", "F48": "the client keeps its connection busy, and F8",
			"F49": "no pooler",
		},
	}
}

func runZooKeeper(dir string) (*Store, error) {
	s, err := zktest.Run(dir)
	if err != nil {
		return nil, noStore(zktest.JarsEnv, err)
	}
	kept := func(_ context.Context, name string) (int, error) {
		conn, err := s.Dial()
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		return nodesBelow(conn, "/"+name)
	}
	cost := func() (Cost, error) {
		packets, connections, outstanding := s.Cost()
		return Cost{Requests: packets, Connections: connections, Busy: outstanding}, nil
	}
	return &Store{Server: s, Kind: ZooKeeper(), Addr: s.Addr(), Held: claimsOf(s), Kept: kept, Cost: cost, Close: s.Kill}, nil
}

// nodesBelow counts the nodes below a name. The two folders of a semaphore stay, and do not
// count.
func nodesBelow(conn *zk.Conn, name string) (n int, err error) {
	children, _, err := conn.Children(name)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, nil
	}
	for _, child := range children {
		if child != "locks" && child != "leases" {
			n++
			continue
		}
		claims, err := nodesBelow(conn, path.Join(name, child))
		if err != nil {
			return 0, err
		}
		n += claims
	}
	return n, err
}

// claimsOf lists the nodes of claims. The nodes of names stay until the server finds
// them empty.
func claimsOf(s *zktest.Server) func(context.Context) ([]string, error) {
	return func(context.Context) (names []string, err error) {
		conn, err := s.Dial()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var walk func(path string) error
		walk = func(path string) error {
			children, _, err := conn.Children(path)
			if errors.Is(err, zk.ErrNoNode) {
				return nil // gone since
			}
			for _, child := range children {
				below := strings.TrimSuffix(path, "/") + "/" + child
				found, stat, err := conn.Exists(below)
				switch {
				case err != nil:
					return err
				case found && stat.EphemeralOwner != 0:
					names = append(names, below)
				case below != "/zookeeper":
					if err := walk(below); err != nil {
						return err
					}
				}
			}
			return err
		}
		return names, walk("/")
	}
}

func zooKeeperEnsemble(t testing.TB) Cluster {
	servers := zktest.StartEnsemble(t, 3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return Cluster{Addr: strings.Join(addrs, ","), KillLeader: func() error {
		for _, s := range servers {
			if s.Leads() {
				s.Kill()
				return nil
			}
		}
		return errors.New("no server leads")
	}}
}

// zooKeeperOver opens sessions with the servers at an address, "host:port,host:port", over
// connections that dial makes, or the client library if it is nil.
func zooKeeperOver(dial zk.Dialer) Open {
	return func(addr string, ttl time.Duration) (driver.Backend, func(), error) {
		b := zkhold.New(strings.Split(addr, ","), &zkhold.Options{TTL: ttl, Dial: dial})
		return b, b.Close, nil
	}
}

func zooKeeperLocker(addr string, opts *holdfast.Options) (*holdfast.Locker, func(), error) {
	locker, end := zkhold.Locker([]string{addr}, opts)
	return locker, end, nil
}

func lossyZooKeeper() *Losses {
	loss := &zktest.Loss{Rate: 0.2}
	return &Losses{Open: zooKeeperOver(loss.Dialer), Lost: loss.Lost, Heal: loss.Heal}
}

func countedZooKeeper(*Store) Counted {
	var count zktest.Count
	return Counted{Open: zooKeeperOver(count.Dialer), Requests: count.All, Each: 1}
}

func askZooKeeper(_ context.Context, addr string) error {
	conn, err := zktest.Dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _, err = conn.Get("/")
	return err
}
