package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/anystore"
	"github.com/holdfast-go/holdfast/internal/e2e/dial"
	"github.com/holdfast-go/holdfast/internal/e2e/faultproxy"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// quorumOfFive is the deployment of five servers that know nothing of each
// other.
const quorumOfFive = "quorum"

// deployments returns the names of all deployments.
func deployments() []string {
	var names []string
	for _, t := range redistest.Topologies() {
		names = append(names, string(t))
	}
	return append(names, quorumOfFive)
}

// arena is the servers.
type arena struct {
	name  string
	dir   string
	parts []*redistest.Deployment // one, or the members of a quorum
	store *anystore.Store         // in place of them, if it is no Redis
	clock bool                    // it can be shifted
	ahead time.Duration           // how far it is; of the lane of server faults alone
}

// openArena starts the servers. What they acknowledge survives a restart.
func openArena(name string) (*arena, error) {
	dir, err := os.MkdirTemp("", "holdfast-soak-*")
	if err != nil {
		return nil, err
	}
	a := &arena{name: name, dir: dir}
	if k, err := anystore.Named(name); err == nil {
		if a.store, err = k.Run(dir); err != nil {
			return nil, errors.Join(err, a.close())
		}
		return a, nil
	}
	top, n := redistest.Topology(name), 1
	if name == quorumOfFive {
		top, n = redistest.Standalone, 5
	}
	for i := range n {
		part := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(part, 0o700); err != nil {
			return nil, errors.Join(err, a.close())
		}
		d, err := a.start(part, top)
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.parts = append(a.parts, d)
	}
	return a, nil
}

// start starts one part, with a clock that can be shifted where there is such a
// thing, on a single server.
func (a *arena) start(dir string, top redistest.Topology) (*redistest.Deployment, error) {
	if a.name == string(redistest.Standalone) {
		d, err := redistest.RunDeployment(dir, top, redistest.AOF(), redistest.ShiftableClock())
		if a.clock = err == nil; !errors.Is(err, redistest.ErrNoClock) {
			return d, err
		}
	}
	return redistest.RunDeployment(dir, top, redistest.AOF())
}

func (a *arena) close() error {
	if a.store != nil {
		a.store.Close()
	}
	for _, d := range a.parts {
		d.Close()
	}
	return os.RemoveAll(a.dir)
}

// fencing says that the store has tokens.
func (a *arena) fencing() bool { return a.name != quorumOfFive }

// failsOver says that another server takes over from a master that is gone.
func (a *arena) failsOver() bool {
	return a.name == string(redistest.Sentinel) || a.name == string(redistest.Cluster)
}

// meshes returns the proxies of one client: one mesh for each part.
func (a *arena) meshes() (mesh, error) {
	if a.store != nil {
		one, err := faultproxy.RunRawMesh([]string{a.store.Addr})
		return mesh{one}, err
	}
	var m mesh
	for _, d := range a.parts {
		one, err := faultproxy.RunMesh(d.Addrs())
		if err != nil {
			m.close()
			return nil, err
		}
		m = append(m, one)
	}
	return m, nil
}

// targets returns how a client connects through its proxies.
func (a *arena) targets(adapter string, m mesh) []dial.Target {
	var all []dial.Target
	for i, d := range a.parts {
		t := dial.To(adapter, d)
		t.Routes = m[i].Routes()
		all = append(all, t)
	}
	return all
}

// queues says that a waiter for a lock of any kind has a place, and keeps the others
// behind it waiting until its lease has ended.
func (a *arena) queues() bool { return a.store != nil && a.store.Queues }

// calmLimit returns how soon a free Mutex is taken while nothing is broken. It is 0 for a quorum,
// where an attempt may fail although nobody holds the lock.
func (a *arena) calmLimit() time.Duration {
	switch {
	case a.store != nil:
		return calmStoreLimit
	case a.fencing():
		return calmLimit
	default:
		return 0
	}
}

// ttls are the leases of the workers, by place.
func (a *arena) ttls() []time.Duration {
	switch {
	case a.queues(): // leases of sessions, of which a server grants none that are shorter
		return []time.Duration{2 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
	case a.store != nil:
		return []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
	default:
		return []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, longestTTL}
	}
}

// heal ends all faults of servers and returns when all is as in the beginning.
func (a *arena) heal() error {
	errs := make([]error, len(a.parts))
	var wg sync.WaitGroup
	for i, d := range a.parts {
		wg.Go(func() { errs[i] = guarded(d.Heal) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// servers returns those with data.
func (a *arena) servers() (all []*redistest.Server) {
	for _, d := range a.parts {
		all = append(all, d.Servers()...)
	}
	return all
}

// masters returns those that are written to.
func (a *arena) masters() (all []*redistest.Server, err error) {
	err = guarded(func() error {
		for _, d := range a.parts {
			all = append(all, d.Masters()...)
		}
		return nil
	})
	return all, err
}

// guarded runs f, which may panic: helpers of package redistest that nobody bound
// to a test do so where there is no answer.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}

// mesh is all proxies of one client.
type mesh []*faultproxy.Mesh

func (m mesh) close() {
	for _, one := range m {
		one.Close()
	}
}

// proxies returns them one by one.
func (m mesh) proxies() (all []*faultproxy.Proxy) {
	for _, one := range m {
		all = append(all, one.Proxies()...)
	}
	return all
}
