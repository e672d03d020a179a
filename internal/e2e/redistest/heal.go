package redistest

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Heal ends every fault that this package can cause, except a shifted clock and
// an open Migration, and returns when the deployment is ready, as in AwaitReady:
// paused processes go on, full memories are free, snapshots can be saved, replicas
// are admitted, killed processes run again.
//
// A killed master that came back empty would empty its replicas. So if it has
// replicas that run, Heal first waits until one of them has taken over, or makes
// one take over where nobody else would, and starts the old master as its
// replica. Data is lost only where a master was killed with all its replicas and
// without the option AOF, or while it was cut off from them.
//
// In a replicated deployment the first server is master again afterwards, as its
// clients know no other.
func (d *Deployment) Heal() error {
	for _, step := range []func() error{d.wake, d.revive, d.admit, d.unite, d.goHome} {
		if err := step(); err != nil {
			return fmt.Errorf("heal the %s deployment: %w", d.top, err)
		}
	}
	return d.AwaitReady()
}

// wake heals those that run, and starts the sentinels that do not: they have no
// data, and are needed to replace a master. One that stood still starts again: after
// a pause it would watch for 30 s and do nothing.
func (f *fleet) wake() error {
	if f.bus != nil {
		f.bus.mend()
	}
	err := each(f.data(), (*Server).unpause)
	for _, s := range f.sentinels {
		if !s.running() {
			s.Kill()
		}
	}
	for _, s := range running(f.data()) {
		err = errors.Join(err, s.freeMemory(), s.repairSaves())
	}
	return errors.Join(err, f.admit(), each(dead(f.sentinels), func(s *Server) error { return s.restart() }))
}

// revive starts the killed servers.
func (f *fleet) revive() error {
	killed := dead(f.data())
	if len(killed) == 0 {
		return nil
	}
	switch f.top {
	case Standalone:
		return killed[0].restart()
	case Cluster:
		return f.reviveNodes(killed)
	}
	master, err := f.successor()
	if err != nil {
		return err
	}
	if !master.running() { // nobody runs
		if err := master.restartAs(nil); err != nil {
			return err
		}
	}
	return each(dead(f.data()), func(s *Server) error { return s.restartAs(master) })
}

// successor returns whom the killed servers shall follow, after everything was
// done to have a master. It returns a server that does not run if none does.
func (f *fleet) successor() (*Server, error) {
	if f.top == Sentinel {
		return f.sentinelSuccessor()
	}
	alive := running(f.data())
	if len(alive) == 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.primary, nil
	}
	if master, err := f.plainMaster(); err == nil {
		return master, nil
	}
	return f.promote(alive)
}

// promote makes master that of servers which is furthest, and the others follow
// it.
func (f *fleet) promote(servers []*Server) (*Server, error) {
	best, most := servers[0], -1
	for _, s := range servers {
		if at, err := s.offset("slave_repl_offset"); err == nil && at > most {
			best, most = s, at
		}
	}
	if err := best.follow(nil); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.primary = best
	f.mu.Unlock()
	return best, each(servers, func(s *Server) error {
		if s == best {
			return nil
		}
		return s.follow(best)
	})
}

// sentinelSuccessor waits for the failover if there is somebody to take over.
// Sentinels never promote a replica that was cut off for long; then they get an order
// about a new master.
func (f *fleet) sentinelSuccessor() (*Server, error) {
	var addr string
	err := poll(findLimit, func() (err error) {
		addr, err = f.elected()
		return err
	})
	if err != nil {
		return nil, err
	}
	alive := running(f.data())
	if s := f.at(addr); s != nil && (s.running() || len(alive) == 0) {
		return s, nil
	}
	const patience = 10 * time.Second
	if master, err := f.findMaster(0, patience); err == nil {
		return master, nil
	}
	master, err := f.promote(alive)
	if err != nil {
		return nil, err
	}
	return master, each(f.sentinels, func(s *Server) error { return f.tellMaster(s, master) })
}

// tellMaster makes the sentinel s forget what it knows and watch master. It finds
// the replicas and the other sentinels by itself.
func (f *fleet) tellMaster(s, master *Server) error {
	if err := s.command("SENTINEL", "REMOVE", MasterName); err != nil {
		return err
	}
	host, port := split(master.peer)
	if err := s.command("SENTINEL", "MONITOR", MasterName, host, port, "2"); err != nil {
		return err
	}
	for _, setting := range f.sentinelSettings() {
		if err := s.command("SENTINEL", "SET", MasterName, setting[0], setting[1]); err != nil {
			return err
		}
	}
	return nil
}

// reviveNodes starts killed nodes of a cluster with what they knew, once the
// slots of each are somebody else's or nobody is left to take them.
func (f *fleet) reviveNodes(killed []*Server) error {
	for _, s := range killed {
		if heir := f.heir(s); heir != nil {
			if err := f.inherit(heir); err != nil {
				return err
			}
		}
	}
	return each(killed, func(s *Server) error { return s.restart() })
}

// heir returns a running replica of the killed node s, if s is still the master.
func (f *fleet) heir(s *Server) *Server {
	for _, r := range running(f.data()) {
		if role, err := r.role(); err == nil && role.master == s.peer {
			return r
		}
	}
	return nil
}

// inherit waits until s has taken over from its master, and makes it do so if the
// others do not elect it, for want of a majority for instance.
func (f *fleet) inherit(s *Server) error {
	isMaster := func() error {
		role, err := s.role()
		if err == nil && role.name != "master" {
			err = fmt.Errorf("%s has not taken over", s.addr)
		}
		return err
	}
	const patience = 10 * time.Second
	if poll(patience, isMaster) == nil {
		return nil
	}
	if err := s.command("CLUSTER", "FAILOVER", "TAKEOVER"); err != nil {
		return err
	}
	return poll(patience, isMaster)
}

// admit undoes CutReplication.
func (f *fleet) admit() error {
	if f.top == Standalone {
		return nil
	}
	return each(running(f.data()), func(s *Server) error { return s.admit(true) })
}

// unite makes everybody follow the one master. Sentinels do that too, but wait
// for 8 s before; a cluster does it at once.
func (f *fleet) unite() error {
	if f.top == Standalone || f.top == Cluster {
		return nil
	}
	master, err := f.findMaster(0, findLimit)
	if err != nil {
		return err
	}
	return each(f.data(), func(s *Server) error {
		role, err := s.role()
		if err != nil || s == master || role.master == master.peer {
			return err
		}
		return s.follow(master)
	})
}

// goHome makes the first server of a replicated deployment master again.
func (f *fleet) goHome() error {
	if f.top != Replicated {
		return nil
	}
	home := f.data()[0]
	master, err := f.findMaster(0, findLimit)
	if err != nil || master == home {
		return err
	}
	if err := poll(readyLimit, func() error { return home.inSync(master) }); err != nil {
		return err
	}
	return f.handOver(master, home)
}

func dead(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return s.PID() != 0 })
}
