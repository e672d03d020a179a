package serve

import (
	"context"
	"net"
	"net/netip"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Loopback reports that an address can be reached from this machine only.
func Loopback(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	if host == "" {
		return false, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback(), nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	for _, ip := range addresses {
		if !ip.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}

// WarnOfHeader says what a header that names the user does not prove.
func (g *Authenticator) WarnOfHeader(report *output.Reporter) {
	if g.header == "" {
		return
	}
	if g.proxy(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || g.proxy(netip.IPv6Loopback()) {
		report.Warn("--trusted has this machine: every program and every user on it can send %s, and be anybody", g.header)
	}
	if len(g.hosts) == 0 {
		report.Warn("--auth-header without --host: requests must name this server by its address or as localhost; give the name that browsers use with --host")
	}
}
