package open

import (
	"fmt"
	"net"
	"path"

	"github.com/jackc/pgx/v5/pgconn"
)

// Exposed returns a warning if the password may go to another machine without TLS, although
// nobody has decided that: the URL leaves open whether there is TLS. Otherwise it returns "". The
// schemes of the other stores say whether there is TLS.
func (t *Target) Exposed() string {
	if s, ok := t.settings.(interface{ exposed() string }); ok {
		return s.exposed()
	}
	return ""
}

// exposed is Target.Exposed. With sslmode=prefer, which is the default, or sslmode=allow, pgx
// tries each host with TLS and without.
func (p *postgres) exposed() string {
	config := p.config.ConnConfig
	attempts := append([]*pgconn.FallbackConfig{{Host: config.Host, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	open := make(map[string]bool) // hosts that pgx also tries without TLS
	for _, a := range attempts {
		open[a.Host] = open[a.Host] || a.TLSConfig == nil
	}
	for _, a := range attempts {
		if config.Password != "" && a.TLSConfig != nil && open[a.Host] && !thisMachine(a.Host) {
			return fmt.Sprintf("the password goes to %s without TLS if the server refuses TLS; add sslmode=verify-full to the URL, or sslmode=disable if nobody else can read the network", a.Host)
		}
	}
	return ""
}

// exposed is Target.Exposed.
func (d *database) exposed() string {
	if d.config.Passwd == "" || d.config.TLS != nil || d.config.Net == "unix" || d.config.TLSConfig != "" && d.config.TLSConfig != "preferred" {
		return ""
	}
	for _, addr := range d.addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil && !thisMachine(host) {
			return fmt.Sprintf("the password may go to %s without TLS; add tls=true to the URL, or tls=false if nobody else can read the network", host)
		}
	}
	return ""
}

// thisMachine reports whether host is this machine: a socket, or an address of the loopback
// interface.
func thisMachine(host string) bool {
	return host == "localhost" || path.IsAbs(host) || net.ParseIP(host).IsLoopback()
}
