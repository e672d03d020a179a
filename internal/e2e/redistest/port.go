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
func FreePort() (int, error) {
	const low, high = 12000, 32000
	for range 200 {
		port := low + rand.IntN(high-low)
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, ln.Close()
	}
	return 0, errors.New("no free port found on 127.0.0.1")
}
