package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// node is one line of CLUSTER NODES.
type node struct {
	id, master string
	addr       string // without TLS, as we ask without
	flags      string
	epoch      int
	slots      [][2]int // first and last of each range
}

func (n node) is(flag string) bool {
	for f := range strings.SplitSeq(n.flags, ",") {
		if f == flag {
			return true
		}
	}
	return false
}

func (n node) owns(slot int) bool {
	for _, r := range n.slots {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// nodes returns the cluster as s sees it.
func (s *Server) nodes() ([]node, error) {
	if !s.running() {
		return nil, errors.New("the server does not run")
	}
	reply := s.within(askLimit).Do("CLUSTER", "NODES")
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("%s answers CLUSTER NODES with %v", s.addr, reply)
	}
	var all []node
	for line := range strings.Lines(text) {
		if n, ok := parseNode(strings.Fields(line)); ok {
			all = append(all, n)
		}
	}
	return all, nil
}

// parseNode reads "id host:port@bus flags master ping pong epoch link slot…".
func parseNode(fields []string) (node, bool) {
	if len(fields) < 8 {
		return node{}, false
	}
	addr, _, _ := strings.Cut(fields[1], "@")
	epoch, _ := strconv.Atoi(fields[6])
	n := node{id: fields[0], addr: addr, flags: fields[2], master: fields[3], epoch: epoch}
	for _, f := range fields[8:] {
		if strings.HasPrefix(f, "[") { // a slot on the move
			continue
		}
		first, last, ok := strings.Cut(f, "-")
		if !ok {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA == nil && errB == nil {
			n.slots = append(n.slots, [2]int{a, b})
		}
	}
	return n, true
}

// myself returns what s says of itself.
func (s *Server) myself() (node, error) {
	all, err := s.nodes()
	if err != nil {
		return node{}, err
	}
	for _, n := range all {
		if n.is("myself") {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("%s does not list itself", s.addr)
}

// owner is the master that claims a slot, under its epoch.
type owner struct {
	server *Server
	epoch  int
}

// owners returns for each slot the running master that claims it. Where two do,
// because one does not know yet that it was deposed, the later epoch counts.
func (f *fleet) owners() *[Slots]owner {
	var owners [Slots]owner
	for _, s := range running(f.data()) {
		me, err := s.myself()
		if err != nil || !me.is("master") {
			continue
		}
		for _, r := range me.slots {
			for slot := r[0]; slot <= r[1]; slot++ {
				if o := &owners[slot]; o.server == nil || me.epoch > o.epoch {
					*o = owner{s, me.epoch}
				}
			}
		}
	}
	return &owners
}

// slotMaster returns the master of slot, if it takes writes.
func (f *fleet) slotMaster(slot int) (*Server, error) {
	s := f.owners()[slot].server
	if s == nil {
		return nil, fmt.Errorf("no running node owns slot %d", slot)
	}
	return s, s.clusterOK()
}

// clusterOK returns an error while s sees the cluster as down.
func (s *Server) clusterOK() error {
	info, _ := s.within(askLimit).Do("CLUSTER", "INFO").(string)
	if state := infoField(info, "cluster_state"); state != "ok" {
		return fmt.Errorf("%s sees the cluster in state %q", s.addr, state)
	}
	return nil
}
