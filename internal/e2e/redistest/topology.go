package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

const (
	// findLimit bounds the search for a master: the longest failover is the one
	// after a split vote of the sentinels.
	findLimit = 30 * time.Second

	// askLimit bounds how long a server that may be about to die is waited for.
	askLimit = time.Second

	pollEvery = 10 * time.Millisecond
)

// Master returns the server that takes writes to key now. While there is none,
// because a failover is under way, it waits for up to 30 s, and then fails the
// test. Only in a cluster does it depend on key.
//
// Of the sentinels the majority decides. A server that was cut off or paused and
// does not know yet that it lost its office is not returned.
func (d *Deployment) Master(key string) *Server {
	d.helper()
	s, err := d.FindMaster(key)
	if err != nil {
		d.fail(err)
	}
	return s
}

// FindMaster is Master for those who need an error.
func (d *Deployment) FindMaster(key string) (*Server, error) {
	s, err := d.findMaster(Slot(key), findLimit)
	if err != nil {
		return nil, err
	}
	return d.bind([]*Server{s})[0], nil
}

// Masters returns the servers that take writes now, in the order of Servers: one,
// or in a cluster each that has slots. It does not wait.
func (d *Deployment) Masters() []*Server { return d.bind(d.masters()) }

// ReplicasOf returns the running servers that now say they are replicas of s, in
// sync or not, in the order of Servers.
func (d *Deployment) ReplicasOf(s *Server) []*Server {
	var found []*Server
	for _, r := range running(d.data()) {
		if role, err := r.role(); err == nil && role.master == s.peer {
			found = append(found, r)
		}
	}
	return d.bind(found)
}

func (f *fleet) findMaster(slot int, limit time.Duration) (master *Server, err error) {
	err = poll(limit, func() error {
		master, err = f.masterOf(slot)
		return err
	})
	return master, err
}

// masterOf returns the master of slot as things are.
func (f *fleet) masterOf(slot int) (*Server, error) {
	switch f.top {
	case Standalone:
		s := f.data()[0]
		_, err := s.role()
		return s, err
	case Replicated:
		return f.plainMaster()
	case Sentinel:
		return f.sentinelMaster()
	default:
		return f.slotMaster(slot)
	}
}

func (f *fleet) masters() []*Server {
	if f.top != Cluster {
		if s, err := f.masterOf(0); err == nil {
			return []*Server{s}
		}
		return nil
	}
	owners := f.owners()
	return slices.DeleteFunc(slices.Clone(f.data()), func(s *Server) bool {
		return !slices.ContainsFunc(owners[:], func(o owner) bool { return o.server == s })
	})
}

// plainMaster returns the running server that says it is master. Of several it is
// the one with the most replicas.
func (f *fleet) plainMaster() (best *Server, err error) {
	most := -1
	for _, s := range running(f.data()) {
		if role, err := s.role(); err == nil && role.name == "master" && role.replicas > most {
			best, most = s, role.replicas
		}
	}
	if best == nil {
		return nil, errors.New("no running server is master")
	}
	return best, nil
}

// sentinelMaster returns the server that the majority of all sentinels calls
// master, if it agrees. Where no sentinel runs, it is what the servers say.
func (f *fleet) sentinelMaster() (*Server, error) {
	if len(running(f.sentinels)) == 0 {
		return f.plainMaster()
	}
	addr, err := f.elected()
	if err != nil {
		return nil, err
	}
	s := f.at(addr)
	if s == nil || !s.running() {
		return nil, fmt.Errorf("the sentinels' master %s does not run", addr)
	}
	role, err := s.role()
	if err == nil && role.name != "master" {
		err = fmt.Errorf("the sentinels' master %s says it is a %s", addr, role.name)
	}
	return s, err
}

// elected returns the address that the majority of the sentinels calls master.
func (f *fleet) elected() (string, error) {
	votes := make(map[string]int)
	for _, s := range running(f.sentinels) {
		addr, _ := s.within(askLimit).Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
		if len(addr) == 2 {
			votes[net.JoinHostPort(fmt.Sprint(addr[0]), fmt.Sprint(addr[1]))]++
		}
	}
	for addr, n := range votes {
		if n > len(f.sentinels)/2 {
			return addr, nil
		}
	}
	return "", fmt.Errorf("the sentinels do not agree on a master: %v", votes)
}

// role is what ROLE says.
type role struct {
	name     string // "master" or "slave"
	replicas int    // of a master
	master   string // of a replica: its master's address
	link     string // of a replica: "connected" if it is in sync
}

func (s *Server) role() (role, error) {
	if !s.running() {
		return role{}, errors.New("the server does not run")
	}
	reply := s.within(askLimit).Do("ROLE")
	list, ok := reply.([]any)
	switch {
	case ok && len(list) == 3 && list[0] == "master":
		replicas, _ := list[2].([]any)
		return role{name: "master", replicas: len(replicas)}, nil
	case ok && len(list) == 5 && list[0] == "slave":
		port, _ := list[2].(int64)
		host, _ := list[1].(string)
		link, _ := list[3].(string)
		return role{name: "slave", master: net.JoinHostPort(host, strconv.FormatInt(port, 10)), link: link}, nil
	default:
		return role{}, fmt.Errorf("%s answers ROLE with %v", s.addr, reply)
	}
}

// poll calls try until it returns nil, for at most limit, and returns its last
// error.
func poll(limit time.Duration, try func() error) error {
	for end := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
	}
}
