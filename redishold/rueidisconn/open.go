package rueidisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold/internal/adapter"
)

// Options are settings of Open that a URL cannot contain, or should not contain. A zero
// field means the default.
type Options struct {
	Username string // replaces the user name of the URL
	Password string // replaces the password of the URL

	SentinelUsername string // the user name for Sentinels, if the URL names any; replaces that of the URL
	SentinelPassword string // the password for Sentinels, if the URL names any; replaces that of the URL

	// TLS has the roots, a client certificate and other settings for a URL with TLS. If this
	// field is set and the URL is without TLS, Open returns an error. Default: the roots of the
	// system, TLS 1.2 or newer. With ServerName every server must have a certificate for that
	// name. Without ServerName, a server needs a certificate for the host of its address. There
	// is one exception: if the URL has a single host name, nodes that a cluster announces by IP
	// address need a certificate for that host name.
	TLS *tls.Config

	ClientName string // the name in CLIENT LIST; default "holdfast"

	// Dial makes the connections, for example through a tunnel. Default: a net.Dialer.
	// Its arguments are "tcp" or "unix", and an address of the URL or one that a Sentinel
	// or a cluster announced. Its context ends after DialTimeout. Dial does not do TLS:
	// the handshake happens on the returned connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// DialTimeout limits the time to open a connection. This includes the handshake of TLS. The
	// same limit applies again to the commands with which a connection begins. Default 2s. If
	// the URL has Sentinels, the default is 1.5s for the server and 1s for each Sentinel.
	DialTimeout time.Duration

	// PingTimeout is how long a PING may stay without an answer before the connection counts as
	// dead and is replaced. Default 1.5s. The client sends a PING when it has received nothing
	// for half a second, so it replaces a dead connection after PingTimeout plus at most a
	// second. A call that takes long does not matter if the server answers other calls. But a
	// server that hangs for longer loses its connections, and the outcomes of their calls are
	// unknown.
	PingTimeout time.Duration
}

// These constants are settings of rueidis. The commands and replies of locks are short, so
// the buffers are small: the defaults of rueidis take about 1.4 MiB for a client.
const (
	ringScale  = 8                      // 256 commands in flight on a connection; more have to wait
	bufferSize = 1 << 14                // number of bytes of each buffer: one for reading, one for writing
	pingAfter  = 500 * time.Millisecond // time without a reply before a PING
	poolIdle   = time.Minute            // how long an idle connection of the pool stays open

	// At this interval, rueidis asks the Sentinels for the master, because a master that was
	// demoted does not report that, and the message of the Sentinels can be lost.
	askSentinelsEvery = 2 * time.Second

	dialTimeout = 2 * time.Second

	// The limit is short, because rueidis does not learn of a new master while it dials an old
	// master that does not respond. The limit is more than a second, because TCP sends a lost
	// packet again after one second.
	masterDialTimeout = 1500 * time.Millisecond

	// A Sentinel on a lost machine must not delay the request to the next Sentinel for long,
	// because rueidis asks one Sentinel after the other for the master.
	sentinelDialTimeout = time.Second

	// At this interval, rueidis asks the cluster for the slots, because a node that hangs or is
	// lost sends no MOVED.
	askClusterEvery = time.Second

	maxRedirections = 16 // limited, because a call would never end if nodes redirect it to each other
)

// Open connects to the servers of url, and returns a Conn when they have answered. It
// returns an error at once if the servers do not answer, if a user name or password is
// wrong, if the Sentinels do not know the master, or if ctx ends. driver.ErrNotExecuted
// means that the servers could not be reached or are not ready. A *redishold.ReplyError
// is a refusal of a server. Any other error is about the URL. No error contains a
// password. The caller must close the Conn.
//
// The URL is one of
//
//	redis://[user[:password]@]host[:port][/db]
//	redis://[user[:password]@]host[:port][/db]?addr=host[:port]&...
//	redis+cluster://[user[:password]@]host[:port],host[:port],...[/db]
//	redis+sentinel://[user[:password]@]host[:port],host[:port],.../master[/db]
//	redis-sentinel://[user[:password]@]host[:port],host[:port],.../[db]?master=name
//	unix://[user[:password]@]/path/to/socket[?db=1]
//
// The schemes valkey, rediss and valkeys are allowed, too; rediss and valkeys use TLS, also to
// Sentinels. The default port is 6379, for Sentinels 26379. Several addresses without Sentinels
// are nodes of a cluster; a single address may be a node of a cluster, too. One address that
// answers is enough. In a cluster before Valkey 9 the only database is 0.
//
// The parameters are client_name, db, dial_timeout, protocol (2 or 3), skip_verify,
// write_timeout (which is Options.PingTimeout), and for Sentinels master (or "master_name",
// "master_set", "sentinelMasterId"), sentinel_username and sentinel_password. The user and the
// password before the hosts are for the data nodes, not for the Sentinels. Any other parameter
// is an error.
func Open(ctx context.Context, url string, opts *Options) (*Conn, error) {
	t, err := targetOf("open redis", url, opts)
	if err != nil {
		return nil, err
	}
	open, end := context.WithCancel(context.Background())
	t.transport.open = open
	t.option.DialCtxFn = t.transport.dial
	client, err := t.open(ctx)
	if err != nil {
		end()
		return nil, err
	}
	c := New(client)
	c.end = end
	if t.Deployment != redisurl.OnlyCluster && c.library.nodes == nil {
		c.library.shared.closed, c.library.pool.closed = &t.transport.closed, &t.transport.closed
		c.library.inline = &inline{sync: t.Deployment != redisurl.Sentinels, ping: c.library.ping}
	}
	return c, nil
}

// target has the servers and the settings from a URL and Options.
type target struct {
	redisurl.Target
	option    rueidis.ClientOption
	transport *transport
}

// targetOf returns the target of url and opts. The parameter `what` names the action in errors.
func targetOf(what, url string, opts *Options) (*target, error) {
	u, err := redisurl.ParseTarget(url)
	if err != nil {
		return nil, err
	}
	o := cmp.Or(opts, &Options{})
	if o.TLS != nil && !u.TLS {
		return nil, errors.New(what + ": there are settings for TLS, but the URL asks for no TLS: use rediss instead of redis")
	}
	t := &target{Target: u, transport: &transport{network: "tcp", connect: o.Dial}}
	switch u.Deployment {
	case redisurl.OneServer:
		t.transport.named, _, _ = net.SplitHostPort(u.Addrs[0])
	case redisurl.OneSocket:
		t.transport.network = "unix"
	case redisurl.Sentinels:
		t.transport.silentServers.until = make(map[string]time.Time)
	case redisurl.OnlyCluster:
	}
	t.option = o.complete(u)
	return t, nil
}

// complete returns the settings of rueidis for o and u.
func (o *Options) complete(u redisurl.Target) rueidis.ClientOption {
	dial := dialTimeout
	if u.Deployment == redisurl.Sentinels {
		dial = masterDialTimeout
	}
	option := rueidis.ClientOption{
		InitAddress:      u.Addrs,
		Username:         cmp.Or(o.Username, u.Username),
		Password:         cmp.Or(o.Password, u.Password),
		SelectDB:         u.DB,
		ClientName:       cmp.Or(o.ClientName, u.ClientName, "holdfast"),
		TLSConfig:        o.tls(u),
		AlwaysRESP2:      u.RESP2,
		ConnWriteTimeout: cmp.Or(o.PingTimeout, u.WriteTimeout, 1500*time.Millisecond),
		Dialer: net.Dialer{
			Timeout:   cmp.Or(o.DialTimeout, u.DialTimeout, dial),
			KeepAlive: pingAfter, // also how long rueidis waits before it sends a PING
		},
		RingScaleEachConn:   ringScale,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
		PipelineMultiplex:   -1, // one connection
		BlockingPoolCleanup: poolIdle,
		DisableCache:        true,
		DisableRetry:        true,
		AlwaysPipelining:    true, // otherwise the end of a connection before its first call goes unnoticed
		// DisableAutoPipelining switches AlwaysPipelining off. Then a command without ToPipe
		// runs in the goroutine of its caller, over a connection of the pool. See inline.go.
		DisableAutoPipelining: u.Deployment != redisurl.OnlyCluster,
		ClusterOption:         rueidis.ClusterOption{MaxMovedRedirections: maxRedirections, ShardsRefreshInterval: askClusterEvery},
	}
	if u.Deployment == redisurl.Sentinels {
		option.Sentinel = rueidis.SentinelOption{
			MasterSet:               u.Master,
			Username:                cmp.Or(o.SentinelUsername, u.SentinelUsername),
			Password:                cmp.Or(o.SentinelPassword, u.SentinelPassword),
			ClientName:              option.ClientName,
			TLSConfig:               option.TLSConfig,
			Dialer:                  option.Dialer,
			TopologyRefreshInterval: askSentinelsEvery,
		}
		option.Sentinel.Dialer.Timeout = cmp.Or(o.DialTimeout, u.DialTimeout, sentinelDialTimeout)
	}
	return option
}

// tls returns the settings for TLS, or nil without TLS. The transport adds the names of the
// servers.
func (o *Options) tls(u redisurl.Target) *tls.Config {
	if !u.TLS {
		return nil
	}
	config := cmp.Or(o.TLS, &tls.Config{MinVersion: tls.VersionTLS12}).Clone()
	config.InsecureSkipVerify = config.InsecureSkipVerify || u.SkipVerify
	return config
}

// open makes a client and checks its servers. It returns when ctx ends, although rueidis does
// not take a context. A client that rueidis makes later is closed when
// t.transport.open ends.
func (t *target) open(ctx context.Context) (rueidis.Client, error) {
	client, err := adapter.Try(ctx, func() (rueidis.Client, error) { return t.connect(ctx) })
	if err != nil && err == ctx.Err() { //nolint:errorlint // those of connect are wrapped
		return nil, t.failed(ctx, t.where(), err)
	}
	return client, err
}

func (t *target) connect(ctx context.Context) (rueidis.Client, error) {
	option, where := t.option, t.where()
	if t.Deployment == redisurl.Sentinels {
		asked, err := t.askSentinels(ctx)
		if err != nil {
			return nil, err
		}
		where = fmt.Sprintf("redis master %q at %s (says the Sentinel at %s)", t.Master, asked.master, asked.sentinel)
		// The Sentinel that has replied comes first, because rueidis asks one Sentinel after
		// the other, and waits for each Sentinel that does not respond.
		others := slices.DeleteFunc(slices.Clone(t.Addrs), func(addr string) bool { return addr == asked.sentinel })
		option.InitAddress = append([]string{asked.sentinel}, others...)
	}
	client, err := newClient(option)
	if err != nil {
		return nil, t.failed(ctx, where, err)
	}
	context.AfterFunc(t.transport.open, client.Close)
	if err := t.check(ctx, client); err != nil {
		return nil, t.failed(ctx, where, err)
	}
	return client, nil
}

// newClient makes a client. If the server or a proxy has no command for the name of the client,
// newClient makes a client without a name, because the name is only a label.
func newClient(option rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(option)
	if reply, refused := rueidis.IsRedisErr(err); refused && strings.Contains(reply.Error(), "command") {
		option.ClientName, option.Sentinel.ClientName = "", ""
		return rueidis.NewClient(option)
	}
	return client, err
}
