package redistest

import "slices"

// FillMemory makes the server behave as one that is full and may not evict:
// commands that need memory are refused with OOM until FreeMemory or the
// server's end. Nothing is stored for it: the limit falls below what is in use.
// Replicas do not mind.
func (s *Server) FillMemory() {
	s.helper()
	s.mu.Lock()
	full := s.limits != nil
	s.mu.Unlock()
	if full {
		return
	}
	old := s.Map("CONFIG", "GET", "maxmemory*")
	if err := s.configure("maxmemory-policy", "noeviction", "maxmemory", "1"); err != nil {
		s.fail(err)
		return
	}
	s.mu.Lock()
	s.limits = []string{"maxmemory", old["maxmemory"], "maxmemory-policy", old["maxmemory-policy"]}
	s.mu.Unlock()
}

// FreeMemory undoes FillMemory. It does nothing where there is nothing to undo.
func (s *Server) FreeMemory() {
	s.helper()
	if err := s.freeMemory(); err != nil {
		s.fail(err)
	}
}

func (s *Server) freeMemory() error {
	s.mu.Lock()
	limits := s.limits
	s.limits = nil
	s.mu.Unlock()
	if limits == nil {
		return nil
	}
	return s.configure(limits...)
}

// configure sets names and values in their order, one by one: Redis 6.2 takes no
// more at a time.
func (s *Server) configure(settings ...string) error {
	for pair := range slices.Chunk(settings, 2) {
		if err := s.command("CONFIG", "SET", pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}
