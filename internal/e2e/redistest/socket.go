package redistest

import (
	"fmt"
	"os"
	"path/filepath"
)

// Socket returns the path of the server's unix socket, or "" without the option
// UnixSocket.
func (s *Server) Socket() string { return s.socket }

// addSocket makes the server listen on a unix socket. Systems allow its path
// about 100 bytes, which the folder of a test with a long name exceeds.
func (s *Server) addSocket(c *config, _ ports) error {
	if !c.socket {
		return nil
	}
	s.socket = filepath.Join(s.dir, "redis.sock")
	if len(s.socket) > 90 {
		short, err := os.MkdirTemp("", "redis")
		if err != nil {
			return err
		}
		s.socket, s.temp = filepath.Join(short, "redis.sock"), short
	}
	*c = c.with(fmt.Sprintf("unixsocket %q", s.socket), "unixsocketperm 600")
	return nil
}
