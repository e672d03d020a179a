package redistest

import (
	"errors"
	"fmt"
	"slices"
)

// AddNode starts one more server and returns when it belongs to the deployment:
// in a cluster a master without slots, elsewhere a replica that is in sync and
// that the sentinels know. A single server cannot have one, which is
// errors.ErrUnsupported. A later RemoveNode is not needed: Close ends it.
func (d *Deployment) AddNode() (*Server, error) {
	if d.top == Standalone {
		return nil, d.unsupported("another server")
	}
	s, err := d.join()
	if err != nil {
		return nil, fmt.Errorf("add a server to the %s deployment: %w", d.top, err)
	}
	if err := d.AwaitReady(); err != nil {
		return nil, err
	}
	return d.bind([]*Server{s})[0], nil
}

// RemoveNode takes a server out of the deployment, makes the others forget it and
// ends it. The slots of a master in a cluster are moved to the others first; any
// other master cannot be removed.
func (d *Deployment) RemoveNode(s *Server) error {
	own, err := d.own(s)
	if err != nil {
		return err
	}
	if d.top == Standalone {
		return d.unsupported("removing a server")
	}
	if err := d.leave(own); err != nil {
		return fmt.Errorf("remove %s from the %s deployment: %w", own.addr, d.top, err)
	}
	return d.AwaitReady()
}

func (f *fleet) join() (*Server, error) {
	c := f.replica()
	if f.top == Cluster {
		c = f.node()
	}
	master, err := f.findMaster(0, findLimit)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.joined++
	name := fmt.Sprintf("joined%d", f.joined)
	f.mu.Unlock()
	s, err := f.prepare(name, c)
	if err != nil {
		return nil, err
	}
	if f.top == Cluster {
		err = s.launch()
	} else {
		err = s.restartAs(master)
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.servers = append(slices.Clip(f.servers), s)
	f.mu.Unlock()
	if f.top != Cluster {
		return s, nil
	}
	return s, f.meet(s, master)
}

// meet introduces s to the cluster. Gossip does the rest, and s takes part in
// votes only once the others know it.
func (f *fleet) meet(s, other *Server) error {
	host, port := split(s.peer)
	return other.command("CLUSTER", "MEET", host, port)
}

func (f *fleet) leave(s *Server) error {
	var forget func() error
	switch f.top {
	case Cluster:
		me, err := s.myself()
		if err != nil {
			return err
		}
		if err := f.empty(s, me); err != nil {
			return err
		}
		forget = func() error { return f.forget(me.id) }
	default:
		role, err := s.role()
		if err == nil && role.name == "master" {
			err = errors.New("it is the master")
		}
		if err != nil {
			return err
		}
		forget = f.resetSentinels
	}
	s.Kill()
	f.mu.Lock()
	f.servers = slices.DeleteFunc(slices.Clone(f.servers), func(o *Server) bool { return o == s })
	f.mu.Unlock()
	defer s.Close()
	return forget()
}

// resetSentinels makes each sentinel look again who is there. They never forget a
// replica otherwise.
func (f *fleet) resetSentinels() error {
	return each(running(f.sentinels), func(s *Server) error {
		return s.command("SENTINEL", "RESET", MasterName)
	})
}

// empty moves the slots of s to the other masters, turn by turn.
func (f *fleet) empty(s *Server, me node) error {
	others := slices.DeleteFunc(f.masters(), func(o *Server) bool { return o == s })
	if len(others) == 0 && len(me.slots) > 0 {
		return errors.New("there is no other master for its slots")
	}
	n := 0
	for _, r := range me.slots {
		for slot := r[0]; slot <= r[1]; slot++ {
			m, err := f.migrate(slot, s, others[n%len(others)])
			if err != nil {
				return err
			}
			if err := m.finish(); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// forget makes all nodes forget the one with id, which is gone, before gossip
// sends it to them again. Its replicas refuse until they have learnt that they
// are now another's.
func (f *fleet) forget(id string) error {
	return each(running(f.data()), func(s *Server) error {
		return poll(findLimit, func() error { return s.command("CLUSTER", "FORGET", id) })
	})
}
