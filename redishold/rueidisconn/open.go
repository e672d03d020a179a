package rueidisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// Options are the settings of Open that a URL does not carry, or that shall not
// stand in one. A zero field means its default.
type Options struct {
	Username string // instead of the URL's
	Password string // instead of the URL's

	SentinelUsername string // for Sentinels, if the URL names any; instead of the URL's
	SentinelPassword string // the same

	// TLS carries roots, a client certificate and so on for a URL that asks for
	// TLS; with any other URL it is an error. Default: the system's roots, TLS 1.2
	// or newer. With ServerName every server must have a certificate for that name.
	// Without, a server needs one for the host by which it is reached; but where
	// redis:// has one name, nodes that the cluster tells as IP addresses need one
	// for that name.
	TLS *tls.Config

	ClientName string // what CLIENT LIST shows; default "holdfast"

	// Dial makes the connections, through a tunnel for example; default is a
	// net.Dialer. It is called with "tcp" or "unix" and an address of the URL, or
	// one that a Sentinel or a cluster told. Its context ends after DialTimeout.
	// TLS is not its business: the handshake is done on what it returns.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// DialTimeout is for a connection and, again, for its handshake; default 2s. With
	// Sentinels the default is 1.5s for the server, and 1s for each Sentinel.
	DialTimeout time.Duration

	// PingTimeout is how long the server may leave a PING unanswered before its
	// connection counts as dead and is replaced; default 1.5s. A PING is sent
	// after half a second in which nothing was received, so that a dead link is
	// replaced after PingTimeout plus at most a second. It is the server's
	// silence that counts, not how long one call takes; but a server that stands
	// still for longer loses its connections, and calls under way end with an
	// unknown outcome.
	PingTimeout time.Duration
}

// Memory of a connection, which carries short commands and short answers, and
// how often a silent one is looked at. rueidis' own defaults take about 1.4 MiB
// for a client.
const (
	ringScale  = 8       // 256 commands under way on a connection; more wait for a place
	bufferSize = 1 << 14 // each for reading and writing
	pingAfter  = 500 * time.Millisecond
	poolIdle   = time.Minute // for connections that carried a WAIT

	// A master that was demoted says nothing, and the message of the Sentinels that
	// tells of it can be missed.
	askSentinelsEvery = 2 * time.Second

	dialTimeout = 2 * time.Second

	// While rueidis waits for an old master that does not answer, it hears of no new
	// one. A packet that was lost is sent again after a second.
	watchedDialTimeout = 1500 * time.Millisecond

	// rueidis asks one Sentinel after the other where the master is. One of a lost
	// machine must not keep it from the next for long.
	sentinelDialTimeout = time.Second

	// A node that stands still sends no MOVED, and neither does one that is gone.
	askClusterEvery = time.Second

	maxRedirections = 16 // a cluster whose nodes point at each other must not keep a call for ever
)

// Open connects to the servers that url names and returns when they have
// answered. It fails at once if there are none, if a user name or password is
// wrong, if the Sentinels know no such master, or if ctx ends. Of the errors,
// driver.ErrNotExecuted says that servers could not be reached or are not ready, and
// a *redishold.ReplyError is a server's refusal; any other error is about the
// URL. None contains a password. The Conn must be closed.
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
// where rediss, valkey and valkeys may stand for redis; rediss and valkeys use
// TLS, with Sentinels too. Ports are 6379, those of Sentinels 26379. Several
// addresses without Sentinels are nodes of a cluster; so may be a single one.
// One that answers is enough; clients learn of the others. Which databases there
// are the servers say: in a cluster only 0, before Valkey 9.
//
// The parameters are client_name, db, dial_timeout, protocol (2 or 3),
// skip_verify, write_timeout (which is Options.PingTimeout), and for Sentinels
// master (or master_name, master_set, sentinelMasterId), sentinel_username and
// sentinel_password. The user and the password before the hosts are those of the
// data nodes. Any other parameter is an error.
//
// Commands go to masters only, never to replicas.
func Open(ctx context.Context, url string, opts *Options) (*Conn, error) {
	t, err := targetOf("open redis", url, opts)
	if err != nil {
		return nil, err
	}
	client, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	c := New(client)
	c.own = true
	return c, nil
}

// targetOf returns what url and opts name, to do what is said with it.
func targetOf(what, url string, opts *Options) (target, error) {
	t, err := parseURL(url)
	if err != nil {
		return target{}, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TLS != nil {
		if !t.asksForTLS() {
			return target{}, errors.New(what + ": there are settings for TLS, but the URL asks for no TLS: use rediss instead of redis")
		}
		t.useTLS(o.TLS)
	}
	o.apply(&t)
	return t, nil
}

// apply completes what the URL says.
func (o Options) apply(t *target) {
	option := &t.option
	option.Username = cmp.Or(o.Username, option.Username)
	option.Password = cmp.Or(o.Password, option.Password)
	option.ClientName = cmp.Or(o.ClientName, option.ClientName, "holdfast")
	sentinelDial := cmp.Or(o.DialTimeout, option.Dialer.Timeout, sentinelDialTimeout)
	usual := dialTimeout
	if t.deployment == sentinelsSet {
		usual = watchedDialTimeout
	}
	option.Dialer.Timeout = cmp.Or(o.DialTimeout, option.Dialer.Timeout, usual)
	option.Dialer.KeepAlive = pingAfter // also how long rueidis waits before it sends a PING
	option.ConnWriteTimeout = cmp.Or(o.PingTimeout, option.ConnWriteTimeout, 1500*time.Millisecond)
	option.RingScaleEachConn = ringScale
	option.ReadBufferEachConn = bufferSize
	option.WriteBufferEachConn = bufferSize
	option.PipelineMultiplex = -1 // one connection
	option.BlockingPoolCleanup = poolIdle
	option.DisableCache = true
	option.DisableRetry = true
	option.AlwaysPipelining = true // otherwise the end of a connection before its first call goes unnoticed
	option.ClusterOption.MaxMovedRedirections = maxRedirections
	option.ClusterOption.ShardsRefreshInterval = askClusterEvery
	t.transport.connect = o.Dial
	if t.deployment == sentinelsSet {
		s := &option.Sentinel
		s.Username = cmp.Or(o.SentinelUsername, s.Username)
		s.Password = cmp.Or(o.SentinelPassword, s.Password)
		s.ClientName, s.Dialer, s.TLSConfig = option.ClientName, option.Dialer, option.TLSConfig
		s.Dialer.Timeout = sentinelDial
		s.TopologyRefreshInterval = askSentinelsEvery
		t.transport.silences = newSilences()
	}
	option.DialCtxFn = t.transport.dial // a copy of the transport as it is now
}

type opened struct {
	client rueidis.Client
	err    error
}

// open makes a client within ctx, which rueidis does not take, and looks whether
// it can be of use. A client that comes too late is closed.
func (t *target) open(ctx context.Context) (rueidis.Client, error) {
	made := make(chan opened, 1)
	go func() {
		client, err := t.connect(ctx)
		made <- opened{client, err}
	}()
	select {
	case o := <-made:
		return o.client, o.err
	case <-ctx.Done():
		go func() {
			if o := <-made; o.err == nil {
				o.client.Close()
			}
		}()
		return nil, t.failed(ctx, t.where(), ctx.Err())
	}
}

func (t *target) connect(ctx context.Context) (rueidis.Client, error) {
	option, where := t.option, t.where()
	if t.deployment == sentinelsSet {
		asked, err := t.askSentinels(ctx)
		if err != nil {
			return nil, err
		}
		where = fmt.Sprintf("redis master %q at %s (says the Sentinel at %s)", option.Sentinel.MasterSet, asked.master, asked.sentinel)
		option.InitAddress = asked.first(option.InitAddress)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, t.failed(ctx, where, err)
	}
	if err := t.check(ctx, client); err != nil {
		client.Close()
		return nil, t.failed(ctx, where, err)
	}
	return client, nil
}
