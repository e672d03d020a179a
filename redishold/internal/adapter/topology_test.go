package adapter

import (
	"context"
	"testing"
)

// scriptedTopology has a method Any with the results of a test.
type scriptedTopology struct {
	Topology
	any func(stay Node, failed string) string
}

func (s scriptedTopology) Any(_ context.Context, stay Node, failed string) (Node, error) {
	return Node{Addr: s.any(stay, failed)}, nil
}

func (s scriptedTopology) Review(string) {}

// A node that fails while one that stays with it asks the cluster is left all the same.
func TestANodeThatFailsMeanwhileIsLeft(t *testing.T) {
	var a *stickyRouter
	asked := 0
	a = &stickyRouter{chosen: Node{Addr: "x"}, nodes: scriptedTopology{any: func(stay Node, failed string) string {
		if asked++; asked == 1 {
			a.Review("x")
		}
		if stay.Addr == "x" || failed != "x" {
			return "x"
		}
		return "y"
	}}}
	for range 2 {
		if node, err := a.Route(t.Context(), ""); err != nil || node.Addr != "y" {
			t.Fatalf("got %q, %v, want y", node.Addr, err)
		}
	}
}
