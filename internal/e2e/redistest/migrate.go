package redistest

import (
	"errors"
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
	moved    bool
	over     bool
}

// MigrateSlot opens the migration of slot to the master to: both know of it, no
// key has moved yet. In other deployments it is errors.ErrUnsupported.
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
	m.moved = true
	host, port := split(m.to.peer)
	args := []string{"MIGRATE", host, port, "", "0", "5000"}
	if m.f.conf.password != "" {
		args = append(args, "AUTH", m.f.conf.password)
	}
	return m.from.command(append(append(args, "KEYS"), keys...)...)
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
	if m.over {
		return errors.New("the migration is over")
	}
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
	m.over = true
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

// Abort leaves the slot where it was and returns when every node knows. Keys that
// have moved, or were made at the new master, come back: the slot is moved there
// and back again, as a key must not be missing to clients in between.
func (m *Migration) Abort() error {
	if m.over {
		return errors.New("the migration is over")
	}
	if reply := m.to.Do("CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(m.slot)); m.moved || reply != any(int64(0)) {
		return m.goBack()
	}
	m.over = true
	// in this order, so that nobody is sent to a master that does not expect it
	if err := m.set(m.from, "STABLE"); err != nil {
		return err
	}
	return m.set(m.to, "STABLE")
}

func (m *Migration) goBack() error {
	if err := m.Finish(); err != nil {
		return err
	}
	back, err := m.f.migrate(m.slot, m.to, m.from)
	if err != nil {
		return err
	}
	return back.Finish()
}
