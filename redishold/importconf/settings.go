package importconf

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/tlsfile"
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
// the default of the caller. Printing it shows no password, but its fields
// do.
type Settings struct {
	URL   string   // for rueidisconn.Open and for the command line, without user and password; "" for a Replicated deployment
	Nodes []string // URLs of the servers of a Replicated deployment: redishold.Conn.Server reports which one is the master

	Deployment Deployment
	Addrs      []string // as "host:port", an IPv6 host in brackets; of a unix socket its path
	MasterName string   // how the Sentinels call the master
	Database   int

	Username, Password                 string `json:"-"`
	SentinelUsername, SentinelPassword string `json:"-"`

	TLS        TLS
	ClientName string

	DialTimeout time.Duration // for a new connection
	Timeout     time.Duration // for an answer: ReadTimeout and WriteTimeout of go-redis; a call of rueidisconn ends with its context

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

// TLS is how connections are encrypted.
type TLS struct {
	Enabled    bool
	CACert     string // PEM file of the authorities to trust; "" for those of the system
	Cert, Key  string // PEM files of our own certificate; both or none
	AnyName    bool   // only who signed the certificate of a server is verified: CA_ONLY of Redisson
	Insecure   bool   // nothing is: an attacker in between can read passwords and change locks
	MinVersion uint16 // of crypto/tls
}

// Ignored is a key that was not used.
type Ignored struct {
	Key  string // unchanged in the file, with what it stands in
	Line int    // in the file, from 1
	Why  string // and what to do, if something is to be done

	// Serious reports that locks, or the way to the servers, are others than those
	// of the Java program unless something is done: a class that renames keys
	// cannot be run here, for example.
	Serious bool
}

// String returns the key, the line and the reason.
func (i Ignored) String() string { return fmt.Sprintf("line %d: %s: %s", i.Line, i.Key, i.Why) }

// String describes s without passwords.
func (s Settings) String() string {
	return fmt.Sprintf("%s, user %q, TTL %v, keys ignored: %d", cmp.Or(s.URL, strings.Join(s.Nodes, " or ")), s.Username, s.TTL, len(s.Ignored))
}

// GoString and LogValue return the same as String, so that neither %#v nor a log
// shows a password.
func (s Settings) GoString() string { return s.String() }

// LogValue is for log/slog.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

// TLSConfig returns the settings for rueidisconn.Options.TLS or a client of the
// program's own, nil if the connections are not encrypted. The files are read
// with read, which may be os.ReadFile. An error names the file.
func (s *Settings) TLSConfig(read func(name string) ([]byte, error)) (*tls.Config, error) {
	t := s.TLS
	if !t.Enabled {
		return nil, nil
	}
	config, err := tlsfile.Config(read, t.CACert, t.Cert, t.Key)
	if err != nil {
		return nil, err
	}
	config.MinVersion, config.InsecureSkipVerify = max(config.MinVersion, t.MinVersion), t.Insecure
	if t.AnyName {
		tlsfile.AnyName(config)
	}
	return config, nil
}
