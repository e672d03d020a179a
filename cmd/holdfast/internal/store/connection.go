package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// Connection has the flags of every command that connects to a store. If redis-cli has the
// same flag, the name is the same.
type Connection struct {
	URL      string
	more     []string // URLs of more servers: a majority of all must agree on each lock
	user     string
	askpass  bool
	cacert   string
	cert     string
	key      string
	sni      string
	insecure bool

	configName string
	Completing bool // a shell completes a command line; the user has not run the program
	Prefix     string
	layout     string
	Replicas   string
	EventLog   bool                 // record the events of the lock in the store
	redisFlag  string               // the first given flag that is only for Redis
	Config     *config.File         // nil until it was loaded
	Imported   *importconf.Settings // from the file of a Java program
	importedAt string               // where the configuration names it

	answers      open.Answers      // of the store, in earlier attempts to open it
	sources      map[string]string // by flag that was not given: where its value comes from
	passwordFrom string            // where the password comes from; "" if there is none
}

// AddTo adds the flags. The parameter without says what is used if there is no URL.
func (o *Connection) AddTo(f *pflag.FlagSet, without string) {
	f.VarP(&urlFlag{first: &o.URL}, "url", "u", "where the locks are kept: redis://, etcd://, zk://, postgres:// or mysql://, as redis://host:6379/0 ("+without+")")
	f.StringVar(&o.user, "user", "", "the user of the store; overrides that of the URL")
	f.BoolVar(&o.askpass, "askpass", false, "ask for the password on the terminal")
	f.StringVar(&o.cacert, "cacert", "", "PEM file of the trusted authorities for certificates of the store (default: the system's)")
	f.StringVar(&o.cert, "cert", "", "PEM file of the client certificate")
	f.StringVar(&o.key, "key", "", "PEM file of the key of --cert")
	f.StringVar(&o.sni, "sni", "", "the name in certificates of the store (default: the host)")
	f.BoolVar(&o.insecure, "insecure", false, "do not verify certificates")
	markConnection(f, "url", "user", "askpass", "cacert", "cert", "key", "sni", "insecure")
}

// AddStoreTo adds the flags of every command that also searches the environment and the
// configuration for its store.
func (o *Connection) AddStoreTo(f *pflag.FlagSet) {
	o.AddTo(f, "default $HOLDFAST_URL, then $REDIS_URL, then the configuration")
	f.StringVar(&o.layout, "layout", "redisson", "the layout of the locks in Redis: redisson, plain or timestamp")
	f.StringVar(&o.Replicas, "replicas", "0", "number of replicas of a Redis that must confirm each lock and each renewal, or all")
	f.StringVar(&o.configName, "config", "", "configuration file (default $HOLDFAST_CONFIG, then holdfast.yaml here, in ~/.config/holdfast or in /etc/holdfast)")
	f.StringVar(&o.Prefix, "prefix", "", "put before the keys in the store, and left out of the names (default $HOLDFAST_PREFIX)")
	markConnection(f, "layout", "replicas", "config", "prefix")
}

// AddSeveralTo allows several --url.
func (o *Connection) AddSeveralTo(f *pflag.FlagSet) {
	url := f.Lookup("url")
	url.Value = &urlFlag{first: &o.URL, more: &o.more}
	url.Usage += "; given several times: independent servers, of which a majority must agree"
}

// ConnectionGroup marks the flags that say where the store is and how to reach it.
const ConnectionGroup = "holdfast_connection"

// markConnection marks flags, so that the help shows them last, under a separate heading.
func markConnection(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := f.SetAnnotation(name, ConnectionGroup, []string{"true"}); err != nil {
			panic(err) // no such flag: a programming error
		}
	}
}

// OnlyURL reports whether no flag that AddTo adds is given, except --url.
func (o *Connection) OnlyURL() bool {
	return o.user == "" && !o.askpass && o.cacert == "" && o.cert == "" && o.key == "" && o.sni == "" && !o.insecure
}

// AddEventLogTo adds the flag of commands that take locks, or end them.
func (o *Connection) AddEventLogTo(f *pflag.FlagSet) {
	f.BoolVar(&o.EventLog, "event-log", false, "record in Redis what happens to the lock, for tail --since and the dashboard")
}

// Access returns how to reach the store at address: the settings of the flags, of the
// configuration and of the environment, with the password.
func (o *Connection) Access(ctx context.Context, address string, env output.Environment, report *output.Reporter) (access.Access, error) {
	kind := KindOf(address)
	a := access.Access{
		URL: address, Username: o.user, CACert: o.cacert, Cert: o.cert, Key: o.key, ServerName: o.sni, Insecure: o.insecure,
		DialTimeout: o.Config.Duration(string(kind) + ".dial_timeout"),
	}
	password, source, err := o.fromConfig(&a, report)
	if err != nil {
		return a, err
	}
	if _, err := a.TLS(); err != nil {
		return a, output.UsageError("%w", err)
	}
	own, _ := redisurl.Passwords(address)
	variable := passwordVariable(env, kind)
	switch {
	case o.askpass:
		source = "--askpass"
		a.Password, err = askPassword(ctx, env)
	case a.Found:
		if variable != "" && !own && password == "" {
			report.Once(slog.LevelWarn, fmt.Sprintf("%s is not used: nobody has named %s, which names the store; do so with --config", variable, o.Config.Name()))
		}
		a.Password = password
	case !own:
		source = cmp.Or(variable, source)
		a.Password, err = storePassword(env, kind, report)
		a.Password = cmp.Or(a.Password, password)
	}
	if o.passwordFrom = source; own && a.Password == "" {
		o.passwordFrom = "the URL"
	}
	if err == nil && endsLine(a.Password) {
		return a, output.UsageError("the password ends with the end of a line, and nobody types one: remove it (echo adds one where printf does not)")
	}
	return a, err
}

// Warn warns about dangerous flags: a password on the command line, which is used although
// every user of the machine can read it, and --insecure.
func (o *Connection) Warn(report *output.Reporter, addresses ...string) {
	inURL := func(address string) bool {
		_, anyPassword := redisurl.Passwords(address)
		return anyPassword
	}
	if o.URL != "" && slices.ContainsFunc(addresses, inURL) {
		report.Once(slog.LevelWarn, "every user of this machine can read the password in --url; use HOLDFAST_URL, REDISCLI_AUTH, HOLDFAST_PASSWORD_FILE or --askpass")
	}
	if o.insecure {
		report.Once(slog.LevelWarn, "--insecure: certificates are not verified; anybody between here and the store can read the password and change the locks")
	}
}

// urlFlag is the flag --url. If it may be given several times, it names independent servers
// that are one store together.
type urlFlag struct {
	first *string
	more  *[]string // nil if only one URL is allowed
}

// String implements pflag.Value.
func (u *urlFlag) String() string {
	if u.first == nil {
		return ""
	}
	return *u.first
}

// Type implements pflag.Value.
func (u *urlFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (u *urlFlag) Set(text string) error {
	text = open.Complete(text)
	switch {
	case *u.first == "":
		*u.first = text
	case u.more == nil:
		return errors.New("it is given twice; only run, hold and elect can lock on several servers at once")
	default:
		*u.more = append(*u.more, text)
	}
	return nil
}
