package open

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/bounded"
	"github.com/holdfast-go/holdfast/redishold/doctor"
	"github.com/holdfast-go/holdfast/zkhold"
)

// zooKeeper has the servers of an ensemble, and how to reach them.
type zooKeeper struct {
	servers []string
	options *zkhold.Options
	limit   time.Duration // how long a server may take to answer the first time
	tls     *tls.Config
}

// parseZooKeeper reads zk://[user:password@]host[:port],host[:port],...[/path], or zks with
// TLS. The nodes of the locks are below the path. The only parameter is dial_timeout.
func parseZooKeeper(r Request) (*zooKeeper, error) {
	a := cut(ZooKeeper, r.Access, "dial_timeout")
	z := &zooKeeper{
		servers: a.addrs(), limit: a.dialLimit(), tls: a.tls(),
		options: &zkhold.Options{TTL: r.TTL, Root: strings.TrimSuffix(a.path, "/")},
	}
	if user, password := a.login(); user != "" {
		z.options.Auth = []zkhold.Credentials{{Scheme: "digest", Auth: user + ":" + password}}
	}
	if z.tls != nil {
		z.options.Dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return z.dial(ctx, network, address)
		}
	}
	return z, a.err
}

func (z *zooKeeper) backend() driver.Backend { return zkhold.New(z.servers, z.options) }

func (z *zooKeeper) open(ctx context.Context) (*Store, error) {
	backend := zkhold.New(z.servers, z.options)
	s := &Store{
		Kind: ZooKeeper, Backend: backend, hosts: strings.Join(z.servers, ", "),
		state: z.state, examine: z.examine, close: backend.Close,
	}
	return s.ready(ctx, z.limit, false)
}

func (z *zooKeeper) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if z.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: z.tls}).DialContext(ctx, network, address)
}

// state sends the command "srvr" to the servers. The version is "unknown" if a server does not
// allow that command. A server without a majority reports that it does not serve requests.
func (z *zooKeeper) state(ctx context.Context) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, z.limit)
	defer cancel()
	return anyState(ctx, z.servers, func(ctx context.Context, server string) (state, error) {
		said, err := z.words(ctx, server, "srvr")
		now := state{version: "unknown"}
		if version, ok := strings.CutPrefix(said, "Zookeeper version: "); ok {
			now.version, _, _ = strings.Cut(version, "-") // the revision of the source code follows
		}
		if strings.Contains(said, "not currently serving requests") {
			now.trouble = errNoMajority
		}
		return now, err
	})
}

// words sends a command of four letters, and returns the answer of the server.
func (z *zooKeeper) words(ctx context.Context, server, command string) (string, error) {
	conn, err := z.dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // when ctx ends, the calls below fail
	if _, err := conn.Write([]byte(command)); err != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	first := make([]byte, 64)
	n, err := conn.Read(first)
	if n == 0 {
		return "", errors.Join(ctx.Err(), cmp.Or(err, io.ErrUnexpectedEOF))
	}
	if command == "srvr" && recognize(askZooKeeper, string(first[:n])) != aZooKeeper {
		return "", bounded.Refuse(conn, fmt.Sprintf("the server is not a ZooKeeper: it sent %q", first[:min(n, 24)]))
	}
	rest, _ := io.ReadAll(io.LimitReader(conn, 64<<10)) // an error after the beginning does not matter
	return string(first[:n]) + string(rest), nil
}

// maxOutstanding is how many requests may wait in a server without a warning.
const maxOutstanding = 1000

// examine sends the commands "srvr" and "conf" to the servers.
func (z *zooKeeper) examine(ctx context.Context, ttl time.Duration) (examined, error) {
	all := examined{deployment: "ensemble"}
	var failed []error
	for _, server := range z.servers {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		said, err := z.words(ctx, server, "srvr")
		var conf string
		if err == nil {
			conf, err = z.words(ctx, server, "conf")
		}
		cancel()
		if err != nil {
			failed = append(failed, err)
			all.add(doctor.Server{Address: server}, noAnswer(err))
			continue
		}
		all.addZooKeeper(server, said, conf, ttl)
	}
	if len(failed) == len(z.servers) {
		return examined{}, errors.Join(failed...)
	}
	return all, nil
}

func (e *examined) addZooKeeper(server, said, conf string, ttl time.Duration) {
	fields := zooKeeperFields(said, ": ")
	role := fields["Mode"]
	if role == "standalone" {
		e.deployment = role
	}
	s := doctor.Server{Address: server, Role: role}
	if v, _, _ := strings.Cut(fields["Zookeeper version"], "-"); v != "" {
		s.Version = "ZooKeeper " + v
	}
	e.add(s, zooKeeperState(said, fields), zooKeeperSession(zooKeeperFields(conf, "="), ttl))
}

// zooKeeperFields returns the values in `text` by their names. Each line has a name, the
// separator `between` and a value.
func zooKeeperFields(text, between string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), between); ok {
			fields[name] = value
		}
	}
	return fields
}

// zooKeeperState judges the answer to the command "srvr".
func zooKeeperState(said string, fields map[string]string) doctor.Finding {
	switch mode := fields["Mode"]; {
	case mode == "" && strings.Contains(said, "not currently serving"):
		return because(saw("state", doctor.Danger, "the server does not work: it is not connected to a majority of the servers"),
			"no lock is granted or renewed without a majority", "start the servers that are down, or open the network between the servers")
	case mode == "":
		return because(saw("state", doctor.Unknown, "the server does not report its state"),
			"", "set 4lw.commands.whitelist=srvr,conf in the configuration of the server")
	case strings.HasPrefix(mode, "read-only"):
		return because(saw("state", doctor.Danger, "the server is read-only: it has lost the connection to the majority"),
			"no lock is granted or renewed without a majority", "start the servers that are down")
	case mode == "standalone":
		return members("state", 1)
	default:
		waiting, _ := strconv.Atoi(fields["Outstanding"])
		return because(saw("state", worse(waiting > maxOutstanding, doctor.Warning), "the server is a %s; requests that wait in it: %d", mode, waiting),
			"heartbeats wait behind other requests, so sessions can end and their locks are lost", "use fewer clients, or a faster disk for the log of the server")
	}
}

// zooKeeperSession judges whether a server allows sessions of the length ttl. Without an error,
// a server changes a length outside its limits to the nearest limit.
func zooKeeperSession(conf map[string]string, ttl time.Duration) doctor.Finding {
	limit := func(name string) time.Duration {
		ms, _ := strconv.ParseInt(conf[name], 10, 64)
		return time.Duration(ms) * time.Millisecond
	}
	least, most := limit("minSessionTimeout"), limit("maxSessionTimeout")
	f := saw("session", doctor.Warning, "the server allows sessions from %v to %v; the lease is %v", least, most, ttl)
	switch {
	case most == 0:
		return because(saw("session", doctor.Unknown, "the server does not report how long sessions may be"),
			"", "set 4lw.commands.whitelist=srvr,conf in the configuration of the server")
	case ttl < least:
		return because(f,
			"after a crash of its holder, a lock stays taken for longer than the lease", fmt.Sprintf("use a lease of %v, or a smaller minSessionTimeout", least))
	case ttl > most:
		return because(f,
			"a lock is lost earlier than its holder expects", fmt.Sprintf("use a lease of %v, or a larger maxSessionTimeout", most))
	}
	f.Severity = doctor.OK
	return f
}
