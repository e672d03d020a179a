package zkhold

import "slices"

// watch is a watch of a node. The mutex of the link guards it.
type watch struct {
	claim nodeKey // the claim of this session that has the node; the zero value if there is none, or once it is removed

	fired   bool
	deleted bool         // for certain
	wakes   []chan error // of waiters
}

// target is a node to watch. wake receives when the node is, or was, changed or removed; it
// is nil if no waiter needs that.
type target struct {
	path string
	wake chan error
}

// addWatches watches nodes. All callers that watch a node share one watch of ZooKeeper.
// After a lost connection the next one ends all watches.
func (l *link) addWatches(targets []target) []*watch {
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
	wire, err := l.wire, l.state() // both at once: the next wire must not be used before its handshake
	l.mu.Unlock()
	if err == nil {
		err = wire.watch(paths)
	}
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended != nil {
			err = nil // the next Try finds out
		}
		for i, path := range paths {
			if l.watches[path] == made[i] { // not one that was made since, on another connection
				l.fire(path, errorOf(err))
			}
		}
	}
	return watches
}

// fire ends a watch, and wakes its waiters. The caller holds the mutex.
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

// isDeleted reports whether the node of a watch was certainly deleted.
func (l *link) isDeleted(w *watch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.deleted
}

// removeWatches ends what addWatches began for these targets.
func (l *link) removeWatches(watches []*watch, targets []target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range watches {
		w.wakes = slices.DeleteFunc(w.wakes, func(wake chan error) bool { return wake == targets[i].wake })
	}
}
