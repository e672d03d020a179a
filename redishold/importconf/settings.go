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

// Deployment is the kind of deployment that a configuration describes.
type Deployment string

// The deployments.
const (
	Single     Deployment = "single"     // one server, a unix socket, or an address of a cluster
	Sentinel   Deployment = "sentinel"   // Addrs are Sentinels
	Cluster    Deployment = "cluster"    // Addrs are nodes of a cluster
	Replicated Deployment = "replicated" // Addrs are servers, one of which is the master
)

// Settings are the settings of a configuration. A zero field means that the configuration does
// not set it, and that the caller uses its own default. The printed Settings contain no
// password, but the fields do.
type Settings struct {
	URL   string   // for rueidisconn.Open and for the command line, without user and password; "" for a Replicated deployment
	Nodes []string // URLs of the servers of a Replicated deployment: redishold.Conn.Server reports which one is the master

	Deployment Deployment
	Addrs      []string // "host:port", with an IPv6 host in brackets; or the path of a unix socket
	MasterName string   // the name of the master at the Sentinels
	Database   int

	Username, Password                 string `json:"-"`
	SentinelUsername, SentinelPassword string `json:"-"`

	TLS        TLS
	ClientName string

	DialTimeout time.Duration // the timeout for a new connection
	Timeout     time.Duration // the timeout for an answer: ReadTimeout and WriteTimeout of go-redis; a call of rueidisconn ends with its context

	Pool         Pool
	MaxRedirects int // how many redirections of a cluster a call follows at most; for go-redis

	TTL      time.Duration // holdfast.Options.TTL; "lockWatchdogTimeout" of Redisson
	FairWait time.Duration // redishold.Options.FairWait; "fairLockWaitTimeout" of Redisson

	Ignored []Ignored // keys that were not used, in the order of the file
}

// Pool is the size of a pool of connections, for clients that have one: go-redis
// does. rueidisconn sends everything over one connection for each server.
type Pool struct {
	Size    int           // the largest number of connections: PoolSize and MaxActiveConns of go-redis
	MinIdle int           // the smallest number of idle connections
	MaxIdle int           // the largest number of idle connections
	Wait    time.Duration // the longest wait for a free connection
}

// TLS has the settings for encrypted connections.
type TLS struct {
	Enabled    bool
	CACert     string // PEM file of the trusted authorities; "" for the authorities that the system trusts
	Cert, Key  string // PEM files of the client certificate; both or none
	AnyName    bool   // verify only the issuer of a certificate, not the name: CA_ONLY of Redisson
	Insecure   bool   // verify nothing: an attacker in the network can read passwords and change locks
	MinVersion uint16 // a version of TLS, as in crypto/tls; 0 for the default
}

// Ignored is a key that was not used.
type Ignored struct {
	Key  string // the key as in the file, with its parent keys
	Line int    // the line of the key in the file, from 1
	Why  string // the reason, and what to do if necessary

	// Serious means that the program uses other locks or other servers than the Java
	// program, until you act. For example, Holdfast cannot run a class that renames keys.
	Serious bool
}

// String returns the key, the line and the reason.
func (i Ignored) String() string { return fmt.Sprintf("line %d: %s: %s", i.Line, i.Key, i.Why) }

// String describes s without passwords.
func (s Settings) String() string {
	return fmt.Sprintf("%s, user %q, TTL %v, keys ignored: %d", cmp.Or(s.URL, strings.Join(s.Nodes, " or ")), s.Username, s.TTL, len(s.Ignored))
}

// GoString returns the same as String, so that %#v shows no password.
func (s Settings) GoString() string { return s.String() }

// LogValue returns the text of String, so that log/slog shows no password.
func (s Settings) LogValue() slog.Value { return slog.StringValue(s.String()) }

// TLSConfig returns the settings for rueidisconn.Options.TLS or for your own client, or nil if
// the connections are not encrypted. The function `read` reads a file; it may be os.ReadFile.
// An error contains the name of the file.
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
