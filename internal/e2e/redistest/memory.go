package redistest

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
	if err := s.command("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction"); err != nil {
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
	return s.command(append([]string{"CONFIG", "SET"}, limits...)...)
}
