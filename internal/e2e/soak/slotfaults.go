package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// moveSlot moves the slot of the victim's lock, with its keys one by one.
func (s *strike) moveSlot(ctx context.Context) error {
	s.onServers()
	t, err := s.arena.parts[0].FindMaster(s.key())
	if err != nil {
		return err
	}
	to := slices.DeleteFunc(s.arena.parts[0].Masters(), func(m *redistest.Server) bool { return m.Addr() == t.Addr() })
	if len(to) == 0 {
		return errors.New("no other master")
	}
	return s.move(ctx, to[s.pick%uint64(len(to))])
}

// joinAndLeave adds a node to a cluster, which serves the victim's lock for a
// while, and takes it away again.
func (s *strike) joinAndLeave(ctx context.Context) error {
	s.onServers()
	d := s.arena.parts[0]
	node, err := d.AddNode()
	if err != nil {
		return err
	}
	return errors.Join(s.move(ctx, node), d.RemoveNode(node))
}

// move moves the slot of the victim's lock to a node.
func (s *strike) move(ctx context.Context, to *redistest.Server) error {
	d, key := s.arena.parts[0], s.key()
	t, err := d.FindMaster(key)
	if err != nil {
		return err
	}
	m, err := d.MigrateSlot(redistest.Slot(key), to)
	if err != nil {
		return err
	}
	pause(ctx, s.duration()/4)
	for range 50 { // locks come and go meanwhile
		keys, _ := t.Do("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(redistest.Slot(key)), "100").([]any)
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			if k, ok := k.(string); ok {
				_ = m.Move(k) // it may be gone
			}
		}
	}
	pause(ctx, s.duration()/4)
	return m.Finish()
}

// loses says that t may forget what it acknowledged, and which slots it has.
func (s *strike) loses(t *redistest.Server) {
	s.window.loses = true
	if s.arena.name == string(redistest.Cluster) {
		s.window.slots = slotsOf(t)
	}
}

// slotsOf returns which slots a node of a cluster has; nil if it does not say.
func slotsOf(t *redistest.Server) func(int) bool {
	nodes, _ := t.Do("CLUSTER", "NODES").(string)
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		owned := map[int]bool{}
		for _, r := range fields[8:] {
			first, last, ranged := strings.Cut(r, "-")
			from, err := strconv.Atoi(first)
			if err != nil {
				continue // a slot on its way
			}
			to := from
			if ranged {
				if to, err = strconv.Atoi(last); err != nil {
					return nil
				}
			}
			for i := from; i <= to; i++ {
				owned[i] = true
			}
		}
		return func(slot int) bool { return owned[slot] }
	}
	return nil
}

// asError returns a reply if it is an error.
func asError(reply any) error {
	err, _ := reply.(error)
	return err
}
