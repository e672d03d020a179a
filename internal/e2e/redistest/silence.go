package redistest

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Silence makes the server what it is once its machine is lost: open connections
// stay open and nothing is answered, as with Pause, and new connections are not
// made either: what asks for one hears nothing until it gives up. When Silence
// returns that is so. Resume, Kill and Heal end it.
//
// The system makes connections in the name of a stopped process until as many wait
// as the process wanted to have wait. Silence makes these. It needs no rights, and
// the links between the nodes of a cluster are not concerned.
func (s *Server) Silence() {
	s.helper()
	if err := s.silence(); err != nil {
		s.fail(err)
	}
}

func (s *Server) silence() error {
	if err := s.trySignal((*process).pause, true); err != nil {
		return err
	}
	waiting, err := fill(s.addr)
	s.mu.Lock()
	s.waiting = append(s.waiting, waiting...)
	s.mu.Unlock()
	return err
}

// fill connects to a stopped process at addr until no more connections are made.
func fill(addr string) ([]net.Conn, error) {
	const (
		most  = 5000                   // the system's own limit is 4096
		long  = 100 * time.Millisecond // for the loopback
		times = 2                      // one may be slow for another reason
	)
	var made []net.Conn
	for failed := 0; failed < times; {
		conn, err := net.DialTimeout("tcp", addr, long)
		var timeout net.Error
		switch {
		case err == nil:
			made = append(made, conn)
		case errors.As(err, &timeout) && timeout.Timeout():
			failed++
		default:
			return made, err
		}
		if len(made) == most {
			return made, fmt.Errorf("%s still accepts connections after %d", addr, most)
		}
	}
	return made, nil
}

// hearAgain ends what fill began.
func (s *Server) hearAgain() {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, conn := range waiting {
		_ = conn.Close()
	}
}
