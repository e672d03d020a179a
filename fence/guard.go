package fence

import "sync"

// Guard refuses stale tokens in the memory of one process: for a resource that
// one process owns, a file or a device, while the lock's holders are others that
// send it their writes. The zero Guard is ready. Its methods may be called from
// several goroutines at once.
//
// A Guard keeps one number for each name that it was shown, about a hundred
// bytes, until Forget; it is for a bounded set of names. It forgets everything
// when its process ends, and then accepts a stale token once: keep the tokens
// beside the data where that matters.
type Guard struct {
	mu    sync.Mutex
	seats map[string]*seat
}

// seat is one name. Its mutex is held while the write runs.
type seat struct {
	mu    sync.Mutex
	token uint64
}

// Do runs write if token is no smaller than any that was used for name before,
// and returns its error; otherwise it returns ErrStale and write is not called.
// Writes of one name run one at a time, so that none can be overtaken by one
// with a larger token. The token counts from before write runs, whatever write
// returns: a failed write may have done something.
//
// write must not call Do for the same name.
func (g *Guard) Do(name string, token uint64, write func() error) error {
	if err := valid(name, token); err != nil {
		return err
	}
	s := g.seat(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.token {
		return stale(name, token, s.token)
	}
	s.token = token
	return write()
}

// Forget drops what is known of name, for a resource that no longer exists.
func (g *Guard) Forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.seats, name)
}

func (g *Guard) seat(name string) *seat {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seats == nil {
		g.seats = map[string]*seat{}
	}
	s := g.seats[name]
	if s == nil {
		s = new(seat)
		g.seats[name] = s
	}
	return s
}
