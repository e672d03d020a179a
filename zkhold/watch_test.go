package zkhold

import (
	"net"
	"testing"
)

// broken is a connection whose Write fails, after something else has happened.
type broken struct {
	net.Conn
	meanwhile func()
	closed    bool
}

func (b *broken) Write([]byte) (int, error) {
	b.meanwhile()
	return 0, net.ErrClosed
}

func (b *broken) Close() error {
	b.closed = true
	return nil
}

// An error of an old connection ends the watches that were requested on it, and not those
// of the next connection for the same node.
func TestErrorOfAnOldConnection(t *testing.T) {
	const path = "/deploy/a"
	l := &link{opts: &Options{}, watches: make(map[string]*watch), ready: make(chan struct{}), connected: true}
	close(l.ready)
	var second []*watch
	first, next := make(chan error, 1), make(chan error, 1)
	l.wire = &wire{link: l, Conn: &broken{meanwhile: func() {
		l.set(func() {
			l.restored()
			l.wire = &wire{link: l, Conn: &script{}}
		})
		second = l.addWatches([]target{{path, next}})
	}}}
	l.addWatches([]target{{path, first}})
	if len(first) != 1 {
		t.Error("the watch of the old connection goes on")
	}
	if len(next) != 0 || l.watches[path] != second[0] {
		t.Error("the watch of the next connection has ended")
	}
}

// A watch that could not be requested ends at once.
func TestWatchThatCannotBeRequested(t *testing.T) {
	l := &link{opts: &Options{}, watches: make(map[string]*watch), ready: make(chan struct{}), connected: true}
	close(l.ready)
	l.wire = &wire{link: l, Conn: &broken{meanwhile: func() {}}}
	wake := make(chan error, 1)
	l.addWatches([]target{{"/deploy/a", wake}})
	if len(wake) != 1 || len(l.watches) != 0 {
		t.Errorf("%d wake-ups and %d watches, want one and none", len(wake), len(l.watches))
	}
}
