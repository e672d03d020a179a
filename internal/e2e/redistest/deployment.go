package redistest

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Topology is a way of running Redis.
type Topology string

// The topologies.
const (
	Standalone Topology = "standalone" // one server
	Replicated Topology = "replicated" // a master and two replicas; nobody fails over by itself
	Sentinel   Topology = "sentinel"   // a master, two replicas and three sentinels
	Cluster    Topology = "cluster"    // three masters with a replica each
)

// Topologies returns all of them.
func Topologies() []Topology { return []Topology{Standalone, Replicated, Sentinel, Cluster} }

// MasterName is the name under which the sentinels know their master.
const MasterName = "mymaster"

// Deployment is a set of servers that belong together. Its methods may be called
// from several goroutines at once, those that change who is whose master
// (FailOver, Heal, MigrateSlot, AddNode, RemoveNode) one at a time.
type Deployment struct {
	*fleet
	t testing.TB // nil where nobody bound it

	mu    sync.Mutex
	bound map[*state]*Server // so that a server is the same pointer each time
}

// fleet is shared by all the copies of a Deployment that Bind makes.
type fleet struct {
	top  Topology
	dir  string
	conf config // of the servers with data
	bus  *bus   // of a cluster with CuttableBus; otherwise nil

	mu        sync.Mutex
	servers   []*Server // replaced, never changed
	sentinels []*Server
	primary   *Server // Replicated: who the master was last
	joined    int     // how many AddNode has started
}

// StartDeployment runs a deployment for t and stops it when t ends. It returns
// when the deployment is ready, as in AwaitReady. Where redis-server is missing
// it skips t, or fails it if the environment variable CI is set.
func StartDeployment(t testing.TB, top Topology, opts ...Option) *Deployment {
	t.Helper()
	d, err := RunDeployment(t.TempDir(), top, opts...)
	skip(t, err)
	d = d.Bind(t)
	t.Cleanup(d.Close)
	return d
}

// RunDeployment runs a deployment outside of a test, with its data in dir. It
// returns when the deployment is ready, and ErrMissing where redis-server is not
// on PATH. The caller must call Close, and dir is the caller's to remove.
func RunDeployment(dir string, top Topology, opts ...Option) (*Deployment, error) {
	f, err := runFleet(dir, top, opts)
	if err != nil {
		return nil, err
	}
	d := &Deployment{fleet: f}
	if err := d.AwaitReady(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Bind returns the same deployment for use in t: it and its servers fail t where
// there is no answer, and must be used from t's goroutine then. A deployment
// that nobody bound panics instead.
func (d *Deployment) Bind(t testing.TB) *Deployment { return &Deployment{fleet: d.fleet, t: t} }

// Close ends all processes and waits until they are gone. It may be called more
// than once.
func (d *Deployment) Close() { d.close() }

// Topology returns what kind of deployment it is.
func (d *Deployment) Topology() Topology { return d.top }

// Servers returns the servers with data, in an order that only AddNode and
// RemoveNode change: the first master comes first, in a cluster the three first
// masters. A server that is killed or paused is among them.
func (d *Deployment) Servers() []*Server { return d.bind(d.data()) }

// Sentinels returns the sentinels.
func (d *Deployment) Sentinels() []*Server { return d.bind(d.sentinels) }

// Addrs returns the address of every process, as its clients and the other
// processes know it: where to put proxies.
func (d *Deployment) Addrs() []string {
	return addresses(append(slices.Clip(d.data()), d.sentinels...))
}

// Seeds returns the addresses that a client is given: the server, the first
// master, the sentinels or all nodes of the cluster. With the option TLS they
// are those for TLS.
func (d *Deployment) Seeds() []string {
	switch d.top {
	case Sentinel:
		return addresses(d.sentinels)
	case Cluster:
		return addresses(d.data())
	default:
		return addresses(d.data()[:1])
	}
}

// URL returns what rueidisconn.Open and the command line tool take for the
// deployment. With the option UnixSocket, that of a single server names its
// socket.
func (d *Deployment) URL() string {
	u := url.URL{Scheme: "redis", Host: strings.Join(d.Seeds(), ",")}
	if d.conf.tls != nil {
		u.Scheme = "rediss"
	}
	if d.conf.password != "" {
		u.User = url.UserPassword("", d.conf.password)
	}
	switch d.top {
	case Sentinel:
		u.Scheme += "+sentinel"
		u.Path = "/" + MasterName
		if d.conf.sentinelPassword != "" {
			u.RawQuery = url.Values{"sentinel_password": {d.conf.sentinelPassword}}.Encode()
		}
	case Cluster:
		u.Scheme += "+cluster"
	default:
		if socket := d.data()[0].Socket(); socket != "" {
			u.Scheme, u.Host, u.Path = "unix", "", socket
		}
	}
	return u.String()
}

// Password returns what the servers ask for, or "".
func (d *Deployment) Password() string { return d.conf.password }

// SentinelPassword returns what the sentinels ask for, or "".
func (d *Deployment) SentinelPassword() string { return d.conf.sentinelPassword }

func (d *Deployment) helper() {
	if d.t != nil {
		d.t.Helper()
	}
}

func (d *Deployment) fail(err error) {
	d.helper()
	Admin{t: d.t}.fail(err)
}

// bind returns servers as d hands them out.
func (d *Deployment) bind(servers []*Server) []*Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bound == nil {
		d.bound = make(map[*state]*Server)
	}
	bound := make([]*Server, len(servers))
	for i, s := range servers {
		if d.bound[s.state] == nil {
			d.bound[s.state] = s.Bind(d.t)
		}
		bound[i] = d.bound[s.state]
	}
	return bound
}

// data returns the servers with data, bound to nobody.
func (f *fleet) data() []*Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servers
}

// own returns the fleet's own copy of s.
func (f *fleet) own(s *Server) (*Server, error) {
	for _, mine := range f.data() {
		if s != nil && mine.state == s.state {
			return mine, nil
		}
	}
	return nil, errors.New("the server does not belong to the deployment")
}

// at returns the server with data that the others know by addr, or nil.
func (f *fleet) at(addr string) *Server {
	for _, s := range f.data() {
		if s.peer == addr {
			return s
		}
	}
	return nil
}

func (f *fleet) close() {
	var all sync.WaitGroup
	for _, s := range append(slices.Clip(f.data()), f.sentinels...) {
		all.Go(s.Close)
	}
	all.Wait()
	if f.bus != nil {
		f.bus.close()
	}
}

func addresses(servers []*Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.peer
	}
	return addrs
}

func running(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.running() })
}

func (f *fleet) unsupported(what string) error {
	return fmt.Errorf("%s in a %s deployment: %w", what, f.top, errors.ErrUnsupported)
}
