package zkhold

import "slices"

// watch is a watch of a node. The mutex of the link is held for what changes.
type watch struct {
	own place // of whose claim the node is, if it is one of the session, until that is removed

	fired   bool
	deleted bool         // for certain
	wakes   []chan error // of waiters
}

// target is a node, and the channel that receives when it is changed or removed, or was
// before; nil if nobody waits.
type target struct {
	path string
	wake chan error
}

// observe watches nodes. All who watch a node share one watch of ZooKeeper. A lost
// connection ends all watches when the next one is there.
func (l *link) observe(targets []target) []*watch {
	l.mu.Lock()
	watches := make([]*watch, len(targets))
	var made []*watch
	var paths []string // of made
	for i, t := range targets {
		w := l.watches[t.path]
		if w == nil {
			w = new(watch)
			l.watches[t.path] = w
			made, paths = append(made, w), append(paths, t.path)
		}
		if t.wake != nil {
			w.wakes = append(w.wakes, t.wake)
		}
		watches[i] = w
	}
	wire, err := l.wire, l.state() // together: the next wire is not to be used before it is greeted
	l.mu.Unlock()
	if err == nil {
		err = wire.watch(paths)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.over != nil {
			err = nil // the next try finds out
		}
		for i, path := range paths {
			if l.watches[path] == made[i] { // not one that was made since, on another connection
				l.fire(path, errorOf(err))
			}
		}
	}
	return watches
}

// fire ends a watch. The mutex is held.
func (l *link) fire(path string, err error) {
	w := l.watches[path]
	if w == nil {
		return
	}
	delete(l.watches, path)
	w.fired = true
	for _, wake := range w.wakes {
		select {
		case wake <- err:
		default: // another of its watches was first
		}
	}
}

// isDeleted says that the node of a watch was deleted for certain.
func (l *link) isDeleted(w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.deleted
}

// ignore ends observe.
func (l *link) ignore(watches []*watch, targets []target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range watches {
		w.wakes = slices.DeleteFunc(w.wakes, func(wake chan error) bool { return wake == targets[i].wake })
	}
}
