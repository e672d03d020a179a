package stores

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Network is a process that delays what goes through it to a server.
type Network struct {
	*process
	addr string
}

// StartNetwork runs a command with three more arguments: an address to listen at, that of the
// server, and the delay of each direction. The Network must be closed.
func StartNetwork(command []string, dir, server string, delay time.Duration) (*Network, error) {
	addr, err := address()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], append(command[1:], addr, server, delay.String())...) //nolint:gosec // the program itself
	cmd.Dir = filepath.Join(dir, fmt.Sprintf("network-%v", delay))
	if err := os.MkdirAll(cmd.Dir, 0o700); err != nil {
		return nil, err
	}
	p, err := run(cmd, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return &Network{p, addr}, err
}

// Addr is where clients connect.
func (n *Network) Addr() string { return n.addr }
