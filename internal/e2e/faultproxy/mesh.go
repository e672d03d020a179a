package faultproxy

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"
)

// Mesh is a Proxy in front of every process of a deployment, for one client. The
// client learns the real addresses from the cluster or from the sentinels, and
// reaches the proxies by a Dialer that looks them up in Routes. Its methods may
// be called from several goroutines at once.
type Mesh struct {
	proxies map[string]*Proxy // by the server's address; never changed
}

// StartMesh runs a mesh for t and closes it when t ends.
func StartMesh(t testing.TB, addrs []string) *Mesh {
	t.Helper()
	m, err := RunMesh(addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// RunMesh runs a mesh outside of a test, with a proxy for each of addrs
// ("host:port"). The caller must call Close.
func RunMesh(addrs []string) (*Mesh, error) { return runMesh(addrs, Run) }

// RunRawMesh is RunMesh with proxies of RunRaw.
func RunRawMesh(addrs []string) (*Mesh, error) { return runMesh(addrs, RunRaw) }

func runMesh(addrs []string, run func(string) (*Proxy, error)) (*Mesh, error) {
	m := &Mesh{proxies: make(map[string]*Proxy, len(addrs))}
	for _, addr := range addrs {
		p, err := run(addr)
		if err != nil {
			m.Close()
			return nil, err
		}
		m.proxies[addr] = p
	}
	return m, nil
}

// Routes returns which address to dial in place of which.
func (m *Mesh) Routes() map[string]string {
	routes := make(map[string]string, len(m.proxies))
	for addr, p := range m.proxies {
		routes[addr] = p.Addr()
	}
	return routes
}

// Proxy returns the proxy in front of the server at addr, or nil.
func (m *Mesh) Proxy(addr string) *Proxy { return m.proxies[addr] }

// Proxies returns all of them, in the order of their servers' addresses.
func (m *Mesh) Proxies() []*Proxy {
	all := make([]*Proxy, 0, len(m.proxies))
	for _, addr := range slices.Sorted(maps.Keys(m.proxies)) {
		all = append(all, m.proxies[addr])
	}
	return all
}

// Blackhole makes the client's links to all servers silent, or lets pass what
// has waited; see Proxy.Blackhole.
func (m *Mesh) Blackhole(on bool) {
	for _, p := range m.proxies {
		p.Blackhole(on)
	}
}

// BlackholeRequests is Blackhole of what the client sends; see Proxy.BlackholeRequests.
func (m *Mesh) BlackholeRequests(on bool) {
	for _, p := range m.proxies {
		p.BlackholeRequests(on)
	}
}

// BlackholeReplies is Blackhole of what the servers send; see Proxy.BlackholeReplies.
func (m *Mesh) BlackholeReplies(on bool) {
	for _, p := range m.proxies {
		p.BlackholeReplies(on)
	}
}

// CutAll closes all connections of the client; see Proxy.CutAll.
func (m *Mesh) CutAll() {
	for _, p := range m.proxies {
		p.CutAll()
	}
}

// HangUpAll closes all connections of the client, and loses nothing that it has
// sent; see Proxy.HangUpAll.
func (m *Mesh) HangUpAll() {
	for _, p := range m.proxies {
		p.HangUpAll()
	}
}

// LoseReplies loses what the servers send next; see Proxy.LoseReplies.
func (m *Mesh) LoseReplies(on bool) {
	for _, p := range m.proxies {
		p.LoseReplies(on)
	}
}

// Withheld returns what the logs of all proxies say; see Proxy.Withheld.
func (m *Mesh) Withheld() []Withheld {
	var all []Withheld
	for _, p := range m.Proxies() {
		all = append(all, p.Withheld()...)
	}
	return all
}

// RefuseNew refuses new connections to all servers; see Proxy.RefuseNew.
func (m *Mesh) RefuseNew() {
	for _, p := range m.proxies {
		p.RefuseNew()
	}
}

// Accept accepts new connections again, to all servers; see Proxy.Accept.
func (m *Mesh) Accept() error {
	var failed error
	for _, p := range m.proxies {
		failed = errors.Join(failed, p.Accept())
	}
	return failed
}

// Latency makes every reply of every server arrive d later; see Proxy.Latency.
func (m *Mesh) Latency(d time.Duration) {
	for _, p := range m.proxies {
		p.Latency(d)
	}
}

// Close cuts everything and waits until the goroutines have ended. It may be
// called more than once.
func (m *Mesh) Close() {
	for _, p := range m.proxies {
		p.Close()
	}
}
