package stores

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/child"
)

// Network is a process that delays what goes through it to a server.
type Network struct {
	child.Program
	addr string
}

// StartNetwork runs a command with three more arguments: an address to listen at, that of the
// server, and the delay of each direction. The Network must be closed.
func StartNetwork(command []string, dir, server string, delay time.Duration) (*Network, error) {
	addr, err := address()
	if err != nil {
		return nil, err
	}
	n := &Network{addr: addr}
	cmd := exec.Command(command[0], append(command[1:], addr, server, delay.String())...) //nolint:gosec // the program itself
	return n, n.Serve(cmd, filepath.Join(dir, fmt.Sprintf("network-%v", delay)), until(func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}

// Close ends the process.
func (n *Network) Close() { n.Kill() }

// Addr is where clients connect.
func (n *Network) Addr() string { return n.addr }
