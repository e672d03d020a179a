package zkhold

import "slices"

// watch is a watch of a node. The mutex of the link guards it.
type watch struct {
	claim nodeKey // the key of the watched node if it belongs to this session; zero for other nodes, and when remove deletes the node

	fired   bool         // the watch has ended
	deleted bool         // the node was certainly deleted
	wakes   []chan error // target.wake of each waiter
}

// target is a node to watch. When the watch ends, the channel wake receives nil if the node may
// have been changed or removed, else the error of the watch. The channel is nil if there is no
// waiter.
type target struct {
	path string
	wake chan error
}

// addWatches watches nodes. All callers that watch the same node share one watch of ZooKeeper.
// All watches end when there is a new connection after a broken one.
func (l *link) addWatches(targets []target) []*watch {
	l.mu.Lock()
	watches := make([]*watch, len(targets))
	var made []*watch
	var paths []string // paths[i] is the path of made[i]
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
	wire, err := l.wire, l.state() // read together: the next wire must not be used before its handshake
	l.mu.Unlock()
	if err == nil {
		err = wire.watch(paths)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended != nil {
			err = nil // the next Try reports that
		}
		for i, path := range paths {
			if l.watches[path] == made[i] { // else it is a later watch, on another connection
				l.fire(path, errorOf(err))
			}
		}
	}
	return watches
}

// fire ends the watch of a path, and sends err to its waiters. The caller holds the mutex.
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
		default: // another watch of the same waiter was first
		}
	}
}

// isDeleted reports whether the node of a watch was certainly deleted.
func (l *link) isDeleted(w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.deleted
}

// removeWatches removes the waiters of these targets from watches.
func (l *link) removeWatches(watches []*watch, targets []target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range watches {
		w.wakes = slices.DeleteFunc(w.wakes, func(wake chan error) bool { return wake == targets[i].wake })
	}
}
