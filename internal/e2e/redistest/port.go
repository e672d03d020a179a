package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort returns a TCP port of 127.0.0.1 on which nobody listens right now.
// It lies between 12000 and 32000: below the range from which systems take the
// ports of outgoing connections, so that a stopped server's port stays free for
// its restart, and low enough for a cluster bus 10000 above it.
func FreePort() (int, error) { return freePort(12000, 32000) }

// busOffset is how far the port of a node's cluster bus is above its own.
const busOffset = 10000

func freePort(low, high int, above ...int) (int, error) {
	for range 200 {
		port := low + rand.IntN(high-low)
		free := isFree(port)
		for _, offset := range above {
			free = free && isFree(port+offset)
		}
		if free {
			return port, nil
		}
	}
	return 0, errors.New("no free port found on 127.0.0.1")
}

func isFree(port int) bool {
	ln, err := net.Listen("tcp", loopback(port))
	return err == nil && ln.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ports are those of one server.
type ports struct{ plain, tls int } // tls is 0 without TLS

func (c config) freePorts() (p ports, err error) {
	free := FreePort
	if c.bus {
		// the bus stays below the ports of outgoing connections too
		free = func() (int, error) { return freePort(12000, 22000, busOffset) }
	}
	if p.plain, err = free(); err == nil && c.tls != nil {
		p.tls, err = free()
	}
	return p, err
}
