package fence

import "sync"

// Guard refuses stale tokens in the memory of one process. Use it for a resource that one
// process owns, such as a file or a device, when the holders of the lock send it their
// writes. The zero Guard is ready for use. Several goroutines may call its methods at
// once.
//
// A Guard stores one token for each name, about a hundred bytes, until Forget. Use it for a
// limited set of names. It forgets everything when its process ends, and may then accept a
// stale token. If that matters, store the tokens with the data.
type Guard struct {
	mu    sync.Mutex
	seats map[string]*seat
}

// seat is the state of one name. Its mutex is held while the write runs.
type seat struct {
	mu    sync.Mutex
	token uint64
}

// Do calls the function `write` and returns its error, if the token is not smaller than any
// earlier token of the name. If the token is smaller, Do returns ErrStale and does not call
// `write`. Writes of one name run one at a time, so no write can come after a write with a
// larger token. Do records the token before it calls `write`. The token stays recorded if
// `write` fails, because a failed write may have had an effect.
//
// The function `write` must not call Do for the same name.
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

// Forget deletes the token that is stored for the name. Use it for a resource that no longer
// exists.
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
