package matrix

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/redishold"
)

// world is the servers of a cell.
type world struct {
	way      deployment
	server   *anystore.Store       // of a store that is no Redis
	alone    []*redistest.Server   // single, quorum
	deployed *redistest.Deployment // the others
}

// newWorld starts the servers of one cell, which cost little, or returns nil for
// deployments that cells share.
func newWorld(t testing.TB, on deployment, opts ...redistest.Option) *world {
	t.Helper()
	w := &world{way: on}
	if k := on.store(); k != nil {
		w.server = k.Start(t)
		return w
	}
	if on.lanes() == 1 && compiles() {
		opts = append(opts, redistest.ShiftableClock())
	}
	switch on {
	case single:
		w.alone = append(w.alone, redistest.Start(t, opts...))
	case quorum5:
		for range 5 {
			w.alone = append(w.alone, redistest.Start(t, opts...))
		}
	case sentinel:
		w.deployed = redistest.StartDeployment(t, redistest.Sentinel, opts...)
	case strict:
		w.deployed = redistest.StartDeployment(t, redistest.Sentinel,
			append(opts, redistest.Conf("min-replicas-to-write 1", "min-replicas-max-lag 1"))...)
	case cluster:
		w.deployed = redistest.StartDeployment(t, redistest.Cluster, opts...)
	}
	return w
}

// bind returns the world for use in t.
func (w *world) bind(t testing.TB) *world {
	b := *w
	b.alone = nil
	for _, s := range w.alone {
		b.alone = append(b.alone, s.Bind(t))
	}
	if w.deployed != nil {
		b.deployed = w.deployed.Bind(t)
	}
	return &b
}

// servers returns all that keep data.
func (w *world) servers() []*redistest.Server {
	if w.deployed != nil {
		return w.deployed.Servers()
	}
	return w.alone
}

// keepers returns those that decide about name: one, or five.
func (w *world) keepers(name string) []*redistest.Server {
	if w.deployed != nil {
		return []*redistest.Server{w.deployed.Master(name)}
	}
	return w.alone
}

// masters returns those that take writes.
func (w *world) masters() []*redistest.Server {
	if w.deployed != nil {
		return w.deployed.Masters()
	}
	return w.alone
}

// said counts the answers of all servers that begin with an error's code.
func (w *world) said(code string) int {
	sum := 0
	for _, s := range w.servers() {
		info, _ := s.Do("INFO", "errorstats").(string) // none from one that is down
		n, _ := strconv.Atoi(strings.TrimPrefix(infoField(info, "errorstat_"+code), "count="))
		sum += n
	}
	return sum
}

// addrs returns the addresses of all processes.
func (w *world) addrs() []string {
	if w.deployed != nil {
		return w.deployed.Addrs()
	}
	if w.server != nil {
		return []string{w.server.Addr}
	}
	var addrs []string
	for _, s := range w.alone {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// startMesh starts a client's proxies. Of Redis alone they know what passes.
func (s *scenario) startMesh() *faultproxy.Mesh {
	s.Helper()
	if s.server == nil {
		return faultproxy.StartMesh(s, s.addrs())
	}
	m, err := faultproxy.RunRawMesh(s.addrs())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(m.Close)
	return m
}

// route is how a client gets to its store. It can be encoded, for a child.
type route struct {
	On      deployment
	Targets []dial.Target // five for a quorum
	Addr    string        // of a store that is no Redis
}

func (w *world) route(adapter string, mesh *faultproxy.Mesh) route {
	var routes map[string]string
	if mesh != nil {
		routes = mesh.Routes()
	}
	r := route{On: w.way}
	if w.server != nil {
		r.Addr = cmp.Or(routes[w.server.Addr], w.server.Addr)
		return r
	}
	if w.deployed != nil {
		t := dial.To(adapter, w.deployed)
		t.Routes = routes
		r.Targets = append(r.Targets, t)
		return r
	}
	for _, s := range w.alone {
		r.Targets = append(r.Targets, dial.Target{
			Adapter: adapter, Topology: redistest.Standalone, Seeds: []string{s.Addr()}, Routes: routes,
		})
	}
	return r
}

// store is an open way to the store, and how to close it.
type store struct {
	driver.Backend
	redis *redishold.Backend // nil for a quorum and for other stores
	shut  func()
}

// open connects. Of a store with sessions ttl is theirs. A quorum trusts restarts unless
// another is given.
func (r route) open(ctx context.Context, ttl time.Duration, distrust *quorum.Options) (*store, error) {
	if r.Addr != "" {
		b, shut, err := r.On.store().Dial(r.Addr, ttl)
		return &store{Backend: b, shut: shut}, err
	}
	var members []driver.Backend
	var shuts []func()
	shut := func() {
		for _, f := range shuts {
			f()
		}
	}
	opts := &redishold.Options{}
	if r.On == strict {
		opts.Replicas = redishold.AllReplicas
	}
	var last *redishold.Backend
	for _, target := range r.Targets {
		conn, closeConn, err := dial.Open(ctx, target)
		if err != nil {
			shut()
			return nil, err
		}
		shuts = append(shuts, closeConn)
		last = redishold.New(conn, opts)
		members = append(members, last)
	}
	if r.On != quorum5 {
		return &store{Backend: last, redis: last, shut: shut}, nil
	}
	if distrust == nil {
		distrust = &quorum.Options{TrustRestarts: true}
	}
	b, err := quorum.New(members, distrust)
	if err != nil {
		shut()
		return nil, err
	}
	return &store{Backend: b, shut: shut}, nil
}
