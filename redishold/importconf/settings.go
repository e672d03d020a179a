package importconf

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Deployment is how the servers of a configuration belong together.
type Deployment string

// The deployments.
const (
	Single     Deployment = "single"     // one server, a unix socket, or a cluster that shows itself as such
	Sentinel   Deployment = "sentinel"   // Addrs are those of Sentinels
	Cluster    Deployment = "cluster"    // Addrs are nodes of a Redis Cluster
	Replicated Deployment = "replicated" // Addrs are servers of which one is the master, nobody says which
)

// Settings is what a configuration says. A zero field was not given, and means
// the default of whoever uses it. Printing it shows no password, but its fields
// do.
type Settings struct {
	// URL is for rueidisconn.Open and for the command line. It has no user name
	// and no password. It is empty for a Replicated deployment.
	URL string

	// Nodes are URLs as well, of the servers of a Replicated deployment. Which one
	// is the master has to be asked: redishold.Conn.Server tells the role.
	Nodes []string

	Deployment Deployment
	Addrs      []string // as "host:port", an IPv6 host in brackets; of a unix socket its path
	MasterName string   // how the Sentinels call the master
	Database   int

	Username, Password                 string `json:"-"`
	SentinelUsername, SentinelPassword string `json:"-"`

	TLS        TLS
	ClientName string

	DialTimeout time.Duration // for a new connection

	// Timeout is how long a client waits for an answer: ReadTimeout and
	// WriteTimeout of go-redis. rueidisconn has nothing like it; a call there
	// ends with its context.
	Timeout time.Duration

	Pool         Pool
	MaxRedirects int // of a cluster, for go-redis

	TTL      time.Duration // holdfast.Options.TTL; lockWatchdogTimeout of Redisson
	FairWait time.Duration // redishold.Options.FairWait; fairLockWaitTimeout of Redisson

	Ignored []Ignored // what was not used, in the order of the file
}

// Pool is the size of a pool of connections, for clients that have one: go-redis
// does. rueidisconn sends everything over one connection for each server.
type Pool struct {
	Size    int           // connections at most: PoolSize and MaxActiveConns of go-redis
	MinIdle int           // kept open although unused
	MaxIdle int           // kept open at most when unused
	Wait    time.Duration // for a free connection
}

// Ignored is a key that was not used.
type Ignored struct {
	Key  string // as it stands in the file, with what it stands in
	Line int    // in the file, from 1
	Why  string // and what to do, if something is to be done

	// Serious tells that locks, or the way to the servers, are others than those
	// of the Java program unless something is done: a class that renames keys
	// cannot be run here, for example.
	Serious bool
}

// String returns the key, the line and the reason.
func (i Ignored) String() string { return fmt.Sprintf("line %d: %s: %s", i.Line, i.Key, i.Why) }

// String describes s without passwords.
func (s Settings) String() string {
	text := cmp.Or(s.URL, strings.Join(s.Nodes, " or "))
	if s.Username != "" {
		text += fmt.Sprintf(" as %q", s.Username)
	}
	if s.Password != "" {
		text += " with a password"
	}
	if s.SentinelPassword != "" {
		text += " and one for the Sentinels"
	}
	if s.TTL > 0 {
		text += fmt.Sprintf(", TTL %v", s.TTL)
	}
	if n := len(s.Ignored); n > 0 {
		text += fmt.Sprintf(", keys ignored: %d", n)
	}
	return text
}

// GoString returns the same as String, so that %#v shows no password either.
func (s Settings) GoString() string { return s.String() }

// LogValue returns what a log may show of s: no passwords.
func (s Settings) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("url", cmp.Or(s.URL, strings.Join(s.Nodes, " or "))), slog.String("deployment", string(s.Deployment)),
		slog.String("username", s.Username), slog.Bool("password", s.Password != ""),
		slog.Bool("sentinel_password", s.SentinelPassword != ""),
		slog.Duration("ttl", s.TTL), slog.Int("ignored", len(s.Ignored)),
	)
}
