package store

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// Connection has the flags of every command that connects to a store. A flag that redis-cli has,
// too, has the same name here.
type Connection struct {
	URLs    []string
	several bool        // several URLs are allowed: a majority of these servers must agree on each lock
	access  open.Access // has the user and the certificates
	askpass bool

	configName string
	Completing bool // a shell completes a command line; the user has not run the program
	Prefix     string
	layout     string
	Replicas   string
	EventLog   bool                 // record the events of the lock in the store
	redisFlag  string               // the first flag on the command line that is only for Redis
	loaded     bool                 // Config was loaded
	Config     config.File          // with the settings of the file of a Java program
	java       *importconf.Settings // from the file of a Java program; nil if the configuration names none

	sources      map[string]string // for each flag that was not given: where its value comes from
	passwordFrom string            // where the password comes from; "" if there is none
}

// AddTo adds the flags. In the help, the text `without` says what is used if no --url is given.
func (o *Connection) AddTo(f *pflag.FlagSet, without string) {
	f.StringArrayVarP(&o.URLs, "url", "u", nil, "the `URL` of the store: redis://, etcd://, zk://, postgres:// or mysql://, such as redis://host:6379/0 ("+without+")")
	f.StringVar(&o.access.Username, "user", "", "the user in the store; overrides the user in the URL")
	f.BoolVar(&o.askpass, "askpass", false, "ask for the password on the terminal")
	f.StringVar(&o.access.CACert, "cacert", "", "PEM file of the trusted authorities for certificates of the store (default: the system's)")
	f.StringVar(&o.access.Cert, "cert", "", "PEM file of the client certificate")
	f.StringVar(&o.access.Key, "key", "", "PEM file of the key of --cert")
	f.StringVar(&o.access.ServerName, "sni", "", "the name that the certificate of the store must have (default: the host)")
	f.BoolVar(&o.access.Insecure, "insecure", false, "do not verify certificates")
}

// AddStoreTo adds the flags of every command that also searches the environment and the
// configuration for its store.
func (o *Connection) AddStoreTo(f *pflag.FlagSet) {
	o.AddTo(f, "default $HOLDFAST_URL, then $REDIS_URL, then the configuration")
	f.StringVar(&o.layout, "layout", "redisson", "the layout of the locks in Redis: redisson, plain or timestamp")
	f.StringVar(&o.Replicas, "replicas", "0", "how many replicas of a Redis must confirm each lock and each renewal: a number, or all")
	f.StringVar(&o.configName, "config", "", "configuration file (default $HOLDFAST_CONFIG, then holdfast.yaml in this folder, in ~/.config/holdfast or in /etc/holdfast)")
	f.StringVar(&o.Prefix, "prefix", "", "the beginning of all keys in the store; names of locks are without it (default $HOLDFAST_PREFIX)")
}

// AllowSeveral allows several --url. In the help, the text `usage` says what several URLs mean.
func (o *Connection) AllowSeveral(f *pflag.FlagSet, usage string) {
	o.several = true
	f.Lookup("url").Usage += "; if given several times: " + usage
}

// IsFlag reports whether a flag of that name says where the store is, or how to reach it. The
// help shows these flags last, under a separate heading.
func IsFlag(name string) bool {
	all := strings.Fields("url user askpass cacert cert key sni insecure layout replicas config prefix")
	return slices.Contains(all, name)
}

// OnlyURL reports whether none of the flags of AddTo is given. The flag --url does not count.
func (o *Connection) OnlyURL() bool { return o.access == open.Access{} && !o.askpass }

// AddEventLogTo adds the flag --event-log, for commands that take locks or end them.
func (o *Connection) AddEventLogTo(f *pflag.FlagSet) {
	f.BoolVar(&o.EventLog, "event-log", false, "record events of the lock in the event log of Redis, for tail --since and the dashboard")
}

// warn warns about --insecure, and about a password on the command line. The program uses such
// a password, although every user of the machine can read it.
func (o *Connection) warn(report *output.Reporter) {
	for _, address := range o.URLs {
		if _, anyPassword := redisurl.Passwords(address); anyPassword {
			report.Once(slog.LevelWarn, "every user of this machine can read the password in --url; use HOLDFAST_URL, REDISCLI_AUTH, HOLDFAST_PASSWORD_FILE or --askpass")
		}
	}
	if o.access.Insecure {
		report.Once(slog.LevelWarn, "--insecure: certificates are not verified; an attacker in the network can read the password and change the locks")
	}
}
