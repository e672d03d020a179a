package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FailOver makes a replica of the master of key master in its place, while all
// are well, and returns when the new one takes writes. In a cluster and in a
// replicated deployment the old one follows it by then, and no write is lost.
//
// Sentinels know no such thing. The old master goes on to take writes, which are
// lost, until the sentinels turn it into a replica, about 8 s later, or Heal does.
//
// In a cluster it waits until the last election of the same node is four node
// timeouts ago. A single server has nobody to take over, which is
// errors.ErrUnsupported.
func (d *Deployment) FailOver(key string) error {
	if d.top == Standalone {
		return d.unsupported("failover")
	}
	slot := Slot(key)
	old, err := d.findMaster(slot, findLimit)
	if err != nil {
		return err
	}
	// A cluster gives up after 5 s, and reports nothing.
	const patience, times = 6 * time.Second, 3
	for range times {
		if err = d.ask(old); err != nil {
			break
		}
		if err = poll(patience, func() error { return d.replaced(old, slot) }); err == nil {
			return nil
		}
	}
	return fmt.Errorf("fail over %s: %w", old.addr, err)
}

// ask starts a graceful failover away from old.
func (f *fleet) ask(old *Server) error {
	switch f.top {
	case Sentinel:
		return f.askSentinel()
	case Cluster:
		r, err := f.replicaInSync(old)
		if err != nil {
			return err
		}
		f.rest(r)
		// a master ignores those that it does not know yet as its replicas
		if err := poll(findLimit, func() error { return f.acquainted(old, r) }); err != nil {
			return err
		}
		return r.command("CLUSTER", "FAILOVER")
	default:
		r, err := f.replicaInSync(old)
		if err != nil {
			return err
		}
		return f.handOver(old, r)
	}
}

// rest waits until the last election of s is long enough ago. measured with Redis
// 7.0: a node that stands for election again within four node timeouts counts the
// votes of the first time. It takes writes for some 40 ms although nobody elected
// it, and loses them; or it does nothing.
func (f *fleet) rest(s *Server) {
	const slack = 200 * time.Millisecond
	pause := 4*max(f.conf.timeout, time.Second) + slack
	time.Sleep(min(pause, time.Until(lastElection(s.Log()).Add(pause))))
}

// lastElection returns when a node last stood for election, by its log: lines
// such as "123:S 21 Nov 2026 13:50:56.286 # Starting a failover election …".
func lastElection(log string) (last time.Time) {
	for line := range strings.Lines(log) {
		head, _, found := strings.Cut(line, " # Starting a failover election")
		if _, stamp, ok := strings.Cut(head, " "); found && ok {
			if at, err := time.ParseInLocation("02 Jan 2006 15:04:05.000", stamp, time.Local); err == nil {
				last = at
			}
		}
	}
	return last
}

// acquainted returns an error unless each of master and replica knows the other
// as what it is.
func (f *fleet) acquainted(master, replica *Server) error {
	me, err := master.myself()
	if err != nil {
		return err
	}
	for _, s := range []*Server{master, replica} {
		nodes, err := s.nodes()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.addr == replica.addr && n.is("slave") && n.master == me.id }) {
			return fmt.Errorf("%s does not know that %s follows %s", s.addr, replica.addr, master.addr)
		}
	}
	return nil
}

// askSentinel asks until a sentinel takes it on: after a failover they refuse
// the next one for a while.
func (f *fleet) askSentinel() error {
	return poll(findLimit, func() error {
		err := errors.New("no sentinel runs")
		for _, s := range running(f.sentinels) {
			if err = s.command("SENTINEL", "FAILOVER", MasterName); err == nil {
				return nil
			}
		}
		return err
	})
}

// handOver promotes the replica to in place of its master, without a loss. The other
// replicas have to get the new master, and continue where they are.
func (f *fleet) handOver(from, to *Server) error {
	host, port := split(to.peer)
	if err := from.command("FAILOVER", "TO", host, port, "TIMEOUT", "5000"); err != nil {
		return err
	}
	err := poll(findLimit, func() error {
		role, err := to.role()
		if err == nil && role.name != "master" {
			err = fmt.Errorf("%s is not master yet", to.addr)
		}
		return err
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.primary = to
	f.mu.Unlock()
	return each(running(f.data()), func(s *Server) error {
		if s == to || s == from {
			return s.remember()
		}
		return s.follow(to)
	})
}

// replicaInSync returns a replica of master that can take over.
func (f *fleet) replicaInSync(master *Server) (*Server, error) {
	var reasons []string
	for _, s := range f.data() {
		if s == master {
			continue
		}
		err := s.inSync(master)
		if err == nil {
			return s, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, fmt.Errorf("no replica is in sync: %s", strings.Join(reasons, "; "))
}

// replaced returns an error unless another server than old is master of slot.
func (f *fleet) replaced(old *Server, slot int) error {
	master, err := f.masterOf(slot)
	switch {
	case err != nil:
		return err
	case master == old:
		return fmt.Errorf("%s is still master", old.addr)
	case f.top == Sentinel:
		return nil
	default:
		return old.inSync(master)
	}
}
