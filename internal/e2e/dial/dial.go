// Package dial opens a redishold.Conn to a deployment of any topology, through
// any adapter, directly or through proxies.
package dial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold"
)

// timeout bounds how long a connection may take to be made, in both adapters.
const timeout = 2 * time.Second

// Target says what to connect to, and how. Apart from TLS it can be encoded as
// JSON, for child processes.
type Target struct {
	Adapter  string // one of Adapters
	Topology redistest.Topology
	Seeds    []string // what a client is given: addresses of servers, or of the sentinels

	Documented bool // with the settings of docs/deployments.md, where they differ from the library's own

	Username, Password string // for the servers
	SentinelPassword   string

	Routes map[string]string // which address to dial in place of which; nil for none; a faultproxy does not understand TLS
	TLS    *tls.Config       `json:"-"` // nil for none
	Socket string            // of a unix socket, in place of Seeds
}

// Adapters returns the names of the adapters.
func Adapters() []string { return []string{rueidisAdapter, goRedisAdapter} }

const (
	rueidisAdapter = "rueidis" // rueidisconn.Open
	goRedisAdapter = "goredis" // goredisconn.New over a client, with the library's own settings unless Target says otherwise
)

// To returns how adapter connects to d as d was started: with its password, with
// TLS, or by its unix socket if it is a single server with one.
func To(adapter string, d *redistest.Deployment) Target {
	first := d.Servers()[0]
	t := Target{
		Adapter: adapter, Topology: d.Topology(), Seeds: d.Seeds(),
		Password: d.Password(), SentinelPassword: d.SentinelPassword(), TLS: first.TLSConfig(),
	}
	if d.Topology() == redistest.Standalone && t.TLS == nil {
		t.Socket = first.Socket()
	}
	return t
}

// Open connects to t. The function that it returns closes the connection and
// must be called. With "goredis" a server that is not there shows at the first
// call only, with "rueidis" here.
func Open(ctx context.Context, t Target) (redishold.Conn, func(), error) {
	if !slices.Contains(redistest.Topologies(), t.Topology) {
		return nil, nil, fmt.Errorf("unknown topology %q", t.Topology)
	}
	switch t.Adapter {
	case rueidisAdapter:
		return t.rueidis(ctx)
	case goRedisAdapter:
		return t.goRedis()
	default:
		return nil, nil, fmt.Errorf("unknown adapter %q", t.Adapter)
	}
}

// dial makes a connection along the routes, without TLS.
func (t Target) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if route, ok := t.Routes[addr]; ok {
		addr = route
	}
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(ctx, network, addr)
}

// dialTLS makes a connection along the routes, with TLS if t has it. The
// certificate is that of the address asked for, whatever is dialled.
func (t Target) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, addr)
	if err != nil || t.TLS == nil {
		return conn, err
	}
	config := t.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}
