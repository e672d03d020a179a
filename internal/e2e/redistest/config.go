package redistest

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Option changes how a server, or every server of a deployment, is configured.
type Option func(*config)

type config struct {
	program          string
	password         string
	sentinelPassword string
	timeout          time.Duration // NodeTimeout
	tls              *authority    // nil without TLS
	socket           bool
	clock            bool
	bus              bool // needs the port 10000 above its own as well
	relays           bool // CuttableBus

	lines []string
	args  []string
	tune  func(*Server)
}

// Password makes the server ask for password (requirepass). URL contains it,
// and the Server's own commands use it.
func Password(password string) Option {
	return func(c *config) {
		c.password = password
		c.lines = append(c.lines, fmt.Sprintf("requirepass %q", password))
	}
}

// AOF makes every acknowledged write survive Kill and Restart (appendonly with
// appendfsync always).
func AOF() Option { return Conf("appendonly yes", "appendfsync always") }

// MaxMemory limits the server's memory, "4mb" for instance, under an eviction
// policy such as "noeviction" or "allkeys-lru".
func MaxMemory(limit, policy string) Option {
	return Conf("maxmemory "+limit, "maxmemory-policy "+policy)
}

// Conf adds lines to the configuration file, after all others. In a deployment
// they are for the servers with data, not for the sentinels.
func Conf(lines ...string) Option {
	return func(c *config) { c.lines = append(c.lines, lines...) }
}

// NodeTimeout sets for how long a master must be silent before the others of its
// deployment count it as down (cluster-node-timeout, down-after-milliseconds);
// default 1 s. A single server ignores it. Sentinels never promote a replica
// that has been cut off from its master for more than ten times as long.
func NodeTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// SentinelPassword makes the sentinels of a deployment ask for a password of
// their own. Without it they ask for none, even where the servers do.
func SentinelPassword(password string) Option {
	return func(c *config) { c.sentinelPassword = password }
}

// UnixSocket makes the server listen on a unix socket as well.
func UnixSocket() Option { return func(c *config) { c.socket = true } }

// ShiftableClock makes ShiftClock possible. It needs a C compiler named cc.
func ShiftableClock() Option { return func(c *config) { c.clock = true } }

func newConfig(opts []Option) (config, error) {
	c := config{timeout: time.Second}
	for _, o := range opts {
		o(&c)
	}
	var err error
	if c.program, err = program(); err == nil && c.tls != nil {
		c.tls, err = newAuthority()
	}
	return c, err
}

// with returns a copy of c with more lines.
func (c config) with(lines ...string) config {
	c.lines = append(append([]string(nil), c.lines...), lines...)
	return c
}

// file returns the text of the configuration. Nothing in it makes a single
// server fork: a forked child could outlive it. That of a replication does not:
// it writes to a pipe.
func (c config) file(dir string, port int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "port %d\nbind 127.0.0.1\ndir %q\n", port, dir)
	b.WriteString("daemonize no\nsave \"\"\nauto-aof-rewrite-percentage 0\nrepl-diskless-sync-delay 0\n")
	b.WriteString(strings.Join(c.lines, "\n"))
	b.WriteString("\n")
	return b.Bytes()
}
