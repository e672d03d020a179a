package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readyLimit bounds AwaitReady.
const readyLimit = 30 * time.Second

// AwaitReady returns when the deployment is as it should be: every process runs,
// there is a master that takes writes (in a cluster for every slot, and all
// nodes agree on whose they are), every replica is in sync, every sentinel
// reaches everybody and sees nobody down. After 30 s it returns what is amiss.
func (d *Deployment) AwaitReady() error {
	if err := poll(readyLimit, d.ready); err != nil {
		return fmt.Errorf("the %s deployment is not ready: %w", d.top, err)
	}
	return nil
}

func (f *fleet) ready() error {
	for _, s := range append(slices.Clip(f.data()), f.sentinels...) {
		if !s.running() {
			return fmt.Errorf("%s does not run", s.addr)
		}
	}
	switch f.top {
	case Standalone:
		_, err := f.masterOf(0)
		return err
	case Cluster:
		return f.clusterReady()
	}
	master, err := f.masterOf(0)
	if err != nil {
		return err
	}
	for _, s := range f.data() {
		if s == master {
			continue
		}
		if err := s.inSync(master); err != nil {
			return err
		}
	}
	return each(f.sentinels, func(s *Server) error { return f.sentinelReady(s, master) })
}

// inSync returns an error unless s is a replica of master and has all that
// master had been written when it was asked.
func (s *Server) inSync(master *Server) error {
	want, err := master.offset("master_repl_offset")
	if err != nil {
		return err
	}
	role, err := s.role()
	switch {
	case err != nil:
		return err
	case role.master != master.peer || role.link != "connected":
		return fmt.Errorf("%s is not in sync with %s: it says %+v", s.addr, master.addr, role)
	}
	switch got, err := s.offset("slave_repl_offset"); {
	case err != nil:
		return err
	case got < want:
		return fmt.Errorf("%s is at %d of %d", s.addr, got, want)
	}
	// the master sends writes only to replicas that it counts as online
	info, _ := master.within(askLimit).Do("INFO", "replication").(string)
	if !strings.Contains(info, "port="+strconv.Itoa(portOf(s.peer))+",state=online") {
		return fmt.Errorf("%s is not online for %s", s.addr, master.addr)
	}
	return nil
}

func (s *Server) offset(field string) (int, error) {
	info, _ := s.within(askLimit).Do("INFO", "replication").(string)
	return strconv.Atoi(infoField(info, field))
}

// staleFlag is what a Sentinel of Valkey 9 has of another one after a failover,
// until it asks it about a master again. Others forget the answer of itself.
const staleFlag = ",master_down"

// sentinelReady returns an error unless the sentinel s knows and reaches all.
func (f *fleet) sentinelReady(s, master *Server) error {
	seen, _ := s.table("MASTERS")
	if len(seen) != 1 || net.JoinHostPort(seen[0]["ip"], seen[0]["port"]) != master.peer || seen[0]["flags"] != "master" {
		return fmt.Errorf("sentinel %s sees as masters %v", s.addr, seen)
	}
	for _, group := range []struct {
		command, flags string
		want           int
	}{
		{"REPLICAS", "slave", len(f.data()) - 1},
		{"SENTINELS", "sentinel", len(f.sentinels) - 1},
	} {
		seen, err := s.table(group.command, MasterName)
		if err != nil {
			return err
		}
		if len(seen) != group.want {
			return fmt.Errorf("sentinel %s knows %d %s, want %d", s.addr, len(seen), group.command, group.want)
		}
		for _, peer := range seen {
			flags := strings.TrimSuffix(peer["flags"], staleFlag)
			if flags != group.flags || group.flags == "slave" && peer["master-link-status"] != "ok" {
				return fmt.Errorf("sentinel %s sees %s as %s, link %q", s.addr, peer["name"], peer["flags"], peer["master-link-status"])
			}
		}
	}
	return nil
}

// table returns the reply of a SENTINEL command that lists instances.
func (s *Server) table(args ...string) ([]map[string]string, error) {
	reply := s.within(askLimit).Do(append([]string{"SENTINEL"}, args...)...)
	rows, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("%s answers SENTINEL %v with %v", s.addr, args, reply)
	}
	table := make([]map[string]string, len(rows))
	for i, row := range rows {
		fields, _ := row.([]any)
		table[i] = make(map[string]string)
		for j := 0; j+1 < len(fields); j += 2 {
			table[i][fmt.Sprint(fields[j])] = fmt.Sprint(fields[j+1])
		}
	}
	return table, nil
}

func (f *fleet) clusterReady() error {
	owners := f.owners()
	if slot := slices.IndexFunc(owners[:], func(o owner) bool { return o.server == nil }); slot >= 0 {
		return fmt.Errorf("nobody owns slot %d", slot)
	}
	for _, s := range f.data() {
		if err := f.nodeReady(s, owners); err != nil {
			return err
		}
	}
	return nil
}

// nodeReady returns an error unless s sees the cluster as it is and, if it is a
// replica, is in sync.
func (f *fleet) nodeReady(s *Server, owners *[Slots]owner) error {
	if err := s.clusterOK(); err != nil {
		return err
	}
	nodes, err := s.nodes()
	if err != nil {
		return err
	}
	if len(nodes) != len(f.data()) {
		return fmt.Errorf("%s knows %d nodes, want %d", s.addr, len(nodes), len(f.data()))
	}
	byID := make(map[string]*Server)
	for _, peer := range f.data() {
		if me, err := peer.myself(); err == nil {
			byID[me.id] = peer
		}
	}
	for _, n := range nodes {
		if n.is("fail") || n.is("fail?") || n.is("handshake") || n.is("noaddr") {
			return fmt.Errorf("%s sees %s as %s", s.addr, n.addr, n.flags)
		}
		if err := s.knows(n, byID); err != nil {
			return err
		}
		for _, r := range n.slots {
			for slot := r[0]; slot <= r[1]; slot++ {
				if byID[n.id] == nil || owners[slot].server != byID[n.id] {
					return fmt.Errorf("%s thinks that slot %d belongs to %s", s.addr, slot, n.addr)
				}
			}
		}
		if n.is("myself") && n.is("slave") {
			if err := s.inSync(byID[n.master]); err != nil {
				return err
			}
		}
	}
	return nil
}

// knows returns an error if s has another picture of whose replica n is than n
// has. A master does not hand over to a replica that it does not know as its own.
func (s *Server) knows(n node, byID map[string]*Server) error {
	peer := byID[n.id]
	if peer == nil {
		return fmt.Errorf("%s knows %s, which nobody is", s.addr, n.id)
	}
	role, err := peer.role()
	if err != nil {
		return err
	}
	follows := ""
	if master := byID[n.master]; n.is("slave") && master != nil {
		follows = master.peer
	}
	if follows != role.master {
		return fmt.Errorf("%s thinks that %s follows %q, which is %q", s.addr, peer.addr, follows, role.master)
	}
	return nil
}
