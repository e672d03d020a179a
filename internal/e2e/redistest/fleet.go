package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// The user as which servers log in to their master. It exists on all of them, as
// any of them may become master.
const replicator, replicatorPassword = "replicator", "replicator-password"

// runFleet starts the processes of a deployment.
func runFleet(dir string, top Topology, opts []Option) (*fleet, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	return child.UntilPortsAreFree(func() (*fleet, error) {
		f := &fleet{top: top, dir: dir, conf: c}
		if err := f.start(); err != nil {
			f.close()
			return nil, err
		}
		return f, nil
	})
}

func (f *fleet) start() error {
	switch f.top {
	case Standalone:
		s, err := f.prepare("server", f.conf)
		if err != nil {
			return err
		}
		f.servers = []*Server{s}
		return s.launch()
	case Replicated:
		return f.startReplicated()
	case Sentinel:
		if err := f.startReplicated(); err != nil {
			return err
		}
		return f.startSentinels()
	case Cluster:
		return f.startCluster()
	default:
		return fmt.Errorf("unknown topology %q", f.top)
	}
}

// prepare prepares one server in a folder of its own.
func (f *fleet) prepare(name string, c config) (*Server, error) {
	dir := filepath.Join(f.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	at, err := c.freePorts()
	if err != nil {
		return nil, err
	}
	return prepare(dir, c, at)
}

// replica returns the configuration of a server that may be master or replica. A
// diskless master would call a replica online up to a second before it sends it
// writes.
func (f *fleet) replica() config {
	return f.conf.with(
		fmt.Sprintf("user %s on >%s ~* &* +psync +replconf +ping", replicator, replicatorPassword),
		"masteruser "+replicator,
		"masterauth "+replicatorPassword,
		"repl-diskless-sync no",
	)
}

// startReplicated starts the master first: a replica that finds none would try
// again only a second later.
func (f *fleet) startReplicated() error {
	for i := range 3 {
		s, err := f.prepare(fmt.Sprintf("server%d", i), f.replica())
		if err != nil {
			return err
		}
		f.servers = append(f.servers, s)
	}
	f.primary = f.servers[0]
	if err := f.primary.launch(); err != nil {
		return err
	}
	return each(f.servers[1:], func(s *Server) error { return s.restartAs(f.primary) })
}

// startCluster starts nodes that know each other and their slots: what they
// would learn by gossip is written into nodes.conf beforehand.
func (f *fleet) startCluster() error {
	c := f.node()
	for i := range 6 {
		s, err := f.prepare(fmt.Sprintf("node%d", i), c)
		if err != nil {
			return err
		}
		f.servers = append(f.servers, s)
	}
	release, err := programRelease(f.conf.program)
	if err != nil {
		return err
	}
	buses, err := f.startBus()
	if err != nil {
		return err
	}
	for i, s := range f.servers {
		if err := os.WriteFile(filepath.Join(s.dir, "nodes.conf"), f.nodesConf(i, buses, release), 0o600); err != nil {
			return err
		}
	}
	masters := len(f.servers) / 2 // first, as in startReplicated
	if err := each(f.servers[:masters], func(s *Server) error { return s.launch() }); err != nil {
		return err
	}
	return each(f.servers[masters:], func(s *Server) error { return s.launch() })
}

// node returns the configuration of a node of a cluster. Replicas take over
// however long they have been cut off from their master.
func (f *fleet) node() config {
	c := f.replica().with(
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		fmt.Sprintf("cluster-node-timeout %d", f.conf.timeout.Milliseconds()),
		"cluster-replica-validity-factor 0",
	)
	c.bus = true
	return c
}

// startBus returns the ports by which the nodes reach each other: their own, or those
// of relays.
func (f *fleet) startBus() ([]int, error) {
	ports := make([]int, len(f.servers))
	for i, s := range f.servers {
		ports[i] = portOf(s.peer) + busOffset
	}
	if !f.conf.relays {
		return ports, nil
	}
	f.bus = newBus()
	for i, s := range f.servers {
		var err error
		if ports[i], err = f.bus.relay(nodeID(i), loopback(ports[i])); err != nil {
			return nil, err
		}
		if err := appendTo(s.conf, fmt.Sprintf("cluster-announce-bus-port %d\n", ports[i])); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// nodesConf returns the nodes.conf of the node i. buses are the ports of all nodes'
// buses. Without the id of its shard a master from Redis 7.2 on leaves itself out of
// CLUSTER SHARDS.
func (f *fleet) nodesConf(i int, buses []int, r Release) []byte {
	var b strings.Builder
	masters := len(f.servers) / 2
	for j, s := range f.servers {
		flags, master, epoch, slots := "master", "-", j+1, ""
		if j < masters {
			slots = fmt.Sprintf(" %d-%d", j*Slots/masters, (j+1)*Slots/masters-1)
		} else {
			flags, master, epoch = "slave", nodeID(j-masters), j-masters+1
		}
		if j == i {
			flags = "myself," + flags
		}
		shard := ""
		if r.Redis.Since(7, 2) {
			shard = ",,shard-id=" + nodeID(100+j%masters) // the empty field is for a host name
		}
		fmt.Fprintf(&b, "%s %s@%d%s %s %s 0 0 %d connected%s\n", nodeID(j), s.peer, buses[j], shard, flags, master, epoch, slots)
	}
	fmt.Fprintf(&b, "vars currentEpoch %d lastVoteEpoch 0\n", masters)
	return []byte(b.String())
}

// nodeID returns an id of 40 hexadecimal digits. Replicas hold their elections
// in the order of their ids.
func nodeID(i int) string { return fmt.Sprintf("%040x", i+1) }

func (f *fleet) startSentinels() error {
	for i := range 3 {
		c := config{program: f.conf.program, password: f.conf.sentinelPassword, tls: f.conf.tls, args: []string{"--sentinel"}, tune: tuneSentinel}
		if c.password != "" {
			c = c.with(fmt.Sprintf("requirepass %q", c.password), fmt.Sprintf("sentinel sentinel-pass %q", c.password))
		}
		s, err := f.prepare(fmt.Sprintf("sentinel%d", i), c)
		if err != nil {
			return err
		}
		f.sentinels = append(f.sentinels, s)
	}
	for i, s := range f.sentinels {
		if err := appendTo(s.conf, f.sentinelConf(i)); err != nil {
			return err
		}
	}
	return each(f.sentinels, func(s *Server) error { return s.launch() })
}

// sentinelConf returns the configuration of sentinel i: about the master and, so that
// it need not find them out, about the replicas and the other sentinels.
func (f *fleet) sentinelConf(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sentinel myid %s\n", nodeID(i))
	fmt.Fprintf(&b, "sentinel monitor %s %s 2\n", MasterName, hostPort(f.primary.peer))
	for _, setting := range f.sentinelSettings() {
		fmt.Fprintf(&b, "sentinel %s %s %q\n", setting[0], MasterName, setting[1])
	}
	for _, s := range f.servers[1:] {
		fmt.Fprintf(&b, "sentinel known-replica %s %s\n", MasterName, hostPort(s.peer))
	}
	for j, s := range f.sentinels {
		if j != i {
			fmt.Fprintf(&b, "sentinel known-sentinel %s %s %s\n", MasterName, hostPort(s.peer), nodeID(j))
		}
	}
	return b.String()
}

// sentinelSettings returns the settings of sentinels for the master beyond its
// address. A failover-timeout of a second keeps a split vote short.
func (f *fleet) sentinelSettings() [][2]string {
	settings := [][2]string{
		{"down-after-milliseconds", fmt.Sprint(f.conf.timeout.Milliseconds())},
		{"failover-timeout", "1000"},
		{"parallel-syncs", "2"},
	}
	if f.conf.password != "" {
		settings = append(settings, [2]string{"auth-pass", f.conf.password})
	}
	return settings
}

// tuneSentinel makes a sentinel notice changes sooner. Servers older than 7.0
// refuse, and are slower then. A lower publish-period would make the other
// sentinels turn a promoted replica back. A replica whose last answer to INFO is
// older than five ping-periods is not promoted, and while its master is down it
// is asked once a second: so no ping-period below 200.
func tuneSentinel(s *Server) {
	_ = s.Do("SENTINEL", "DEBUG", "info-period", "100", "ping-period", "250", "ask-period", "50")
}
