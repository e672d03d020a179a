package redistest_test

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Nobody gets a connection to a server whose machine is lost, and those who have
// one hear nothing; afterwards all is as before.
func TestSilence(t *testing.T) {
	s := start(t)
	for _, end := range []func(){s.Resume, s.Restart} {
		open, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		s.Silence()
		if _, err := open.Write([]byte("PING\r\n")); err != nil {
			t.Errorf("an open connection: %v", err)
		}
		_ = open.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := open.Read(make([]byte, 64)); !silent(err) {
			t.Errorf("an open connection: got %d bytes, %v, want silence", n, err)
		}
		if conn, err := net.DialTimeout("tcp", s.Addr(), 200*time.Millisecond); !silent(err) {
			t.Errorf("a new connection: got %v, %v, want silence", conn, err)
		}
		_ = open.Close()
		end()
		if got := s.String("PING"); got != "PONG" {
			t.Fatalf("afterwards: got %q, want PONG", got)
		}
	}
}

// silent reports that nothing was heard, not even a refusal.
func silent(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
