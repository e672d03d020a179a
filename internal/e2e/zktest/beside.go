package zktest

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/e2e/sessiontest"
	"github.com/holdfast-go/holdfast/zkhold"
)

// Beside has the tests of a package run beside one server, and a client that looks at it,
// which it stores in server and observer. Programs of sessiontest.StartHolder have sessions
// of ttl.
func Beside(server **Server, observer **zk.Conn, ttl time.Duration) sessiontest.Beside {
	return sessiontest.Beside{
		Start: func(dir string) (string, func(), error) {
			s, err := Run(dir)
			if err != nil {
				return "", nil, err
			}
			conn, err := s.Dial()
			if err != nil {
				s.Kill()
				return "", nil, err
			}
			*server, *observer = s, conn
			return s.Addr(), func() { conn.Close(); s.Kill() }, nil
		},
		Open: func(addr string) (driver.Backend, error) {
			return zkhold.New([]string{addr}, &zkhold.Options{TTL: ttl}), nil
		},
	}
}
