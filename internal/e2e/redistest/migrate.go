package redistest

import (
	"fmt"
	"strconv"
)

// Migration is a slot of a cluster on its way from one master to another. While
// it is open, clients get ASK for keys that are not at the old master any
// more, or not yet there, and TRYAGAIN where a script needs keys of both kinds.
// Its methods must not be called side by side, nor during a failover of one of
// the two masters.
type Migration struct {
	f        *fleet
	slot     int
	from, to *Server
	heir     string // the id of to
}

// MigrateSlot opens the migration of slot to the master to: both know of it, no
// key has moved yet. In other deployments it is errors.ErrUnsupported. The masters must
// not ask for a password.
func (d *Deployment) MigrateSlot(slot int, to *Server) (*Migration, error) {
	if d.top != Cluster {
		return nil, d.unsupported("slot migration")
	}
	to, err := d.own(to)
	if err != nil {
		return nil, err
	}
	from, err := d.findMaster(slot, findLimit)
	if err != nil {
		return nil, err
	}
	return d.migrate(slot, from, to)
}

func (f *fleet) migrate(slot int, from, to *Server) (*Migration, error) {
	if from == to {
		return nil, fmt.Errorf("%s has slot %d already", to.addr, slot)
	}
	old, err := from.myself()
	if err != nil {
		return nil, err
	}
	heir, err := to.myself()
	if err != nil {
		return nil, err
	}
	m := &Migration{f: f, slot: slot, from: from, to: to, heir: heir.id}
	// in this order, so that nobody is sent to a master that does not expect it
	if err := m.set(to, "IMPORTING", old.id); err != nil {
		return nil, err
	}
	return m, m.set(from, "MIGRATING", heir.id)
}

// Move moves keys of the slot to its new master. Keys that do not exist are
// passed over.
func (m *Migration) Move(keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	host, port := split(m.to.peer)
	return m.from.command(append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
}

// Finish moves what is left, gives the slot to its new master and returns when
// every node knows.
func (m *Migration) Finish() error {
	if err := m.finish(); err != nil {
		return err
	}
	return poll(findLimit, m.known)
}

func (m *Migration) finish() error {
	for {
		reply := m.from.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.slot), "100")
		list, ok := reply.([]any)
		if !ok {
			return fmt.Errorf("keys of slot %d at %s: %v", m.slot, m.from.addr, reply)
		}
		if len(list) == 0 {
			break
		}
		keys := make([]string, len(list))
		for i, key := range list {
			keys[i], _ = key.(string)
		}
		if err := m.Move(keys...); err != nil {
			return err
		}
	}
	return m.assign()
}

// set sends the slot to s.
func (m *Migration) set(s *Server, what ...string) error {
	return s.command(append([]string{"CLUSTER", "SETSLOT", strconv.Itoa(m.slot)}, what...)...)
}

// assign sends it to the new master first, so that there is one at every moment, then
// all others.
func (m *Migration) assign() error {
	if err := m.set(m.to, "NODE", m.heir); err != nil {
		return err
	}
	for _, s := range running(m.f.data()) {
		if me, err := s.myself(); s == m.to || err == nil && me.is("slave") {
			continue
		}
		if err := m.set(s, "NODE", m.heir); err != nil {
			// a master that learns of the loss of its last slot becomes a replica
			if me, again := s.myself(); again != nil || !me.is("slave") {
				return err
			}
		}
	}
	return nil
}

// known returns an error unless every running node knows of the new master.
func (m *Migration) known() error {
	for _, s := range running(m.f.data()) {
		nodes, err := s.nodes()
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.owns(m.slot) && n.id != m.heir {
				return fmt.Errorf("%s thinks that slot %d belongs to %s", s.addr, m.slot, n.addr)
			}
		}
	}
	return nil
}
