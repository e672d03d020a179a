package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// connectOptions are the flags of every command that connects to a store. Where
// redis-cli has such a flag, it has the same name.
type connectOptions struct {
	url      string
	user     string
	askpass  bool
	cacert   string
	cert     string
	key      string
	sni      string
	insecure bool

	configName string
	completing bool // for a shell: nobody has called the program
	layout     string
	replicas   string
	eventLog   bool                 // tell the store what happens to the locks
	redisFlag  string               // the first flag that was given which is for Redis alone
	config     *config.File         // nil until it was loaded
	imported   *importconf.Settings // what the file of a Java program says that the configuration names
}

// addTo adds the flags; without says what is used without a URL.
func (o *connectOptions) addTo(f *pflag.FlagSet, without string) {
	f.VarP(&urlFlag{first: &o.url}, "url", "u", "where the locks are kept: redis://, etcd://, zk://, postgres:// or mysql://, as redis://host:6379/0 ("+without+")")
	f.StringVar(&o.user, "user", "", "the user of the store; overrides that of the URL")
	f.BoolVar(&o.askpass, "askpass", false, "ask for the password on the terminal")
	f.StringVar(&o.cacert, "cacert", "", "PEM file of the trusted authorities for certificates of the store (default: the system's)")
	f.StringVar(&o.cert, "cert", "", "PEM file of the client certificate")
	f.StringVar(&o.key, "key", "", "PEM file of the key of --cert")
	f.StringVar(&o.sni, "sni", "", "the name in certificates of the store (default: the host)")
	f.BoolVar(&o.insecure, "insecure", false, "do not verify certificates")
	markConnection(f, "url", "user", "askpass", "cacert", "cert", "key", "sni", "insecure")
}

// addStoreTo adds the flags of every command that looks for its store in the
// environment and the configuration too.
func (o *connectOptions) addStoreTo(f *pflag.FlagSet) {
	o.addTo(f, "default $HOLDFAST_URL, then $REDIS_URL, then the configuration")
	f.StringVar(&o.layout, "layout", "redisson", "the layout of the locks in Redis: redisson, plain or timestamp")
	f.StringVar(&o.replicas, "replicas", "0", "number of replicas of a Redis that must confirm each lock and each renewal, or all")
	f.StringVar(&o.configName, "config", "", "configuration file (default $HOLDFAST_CONFIG, then holdfast.yaml here, in ~/.config/holdfast or in /etc/holdfast)")
	markConnection(f, "layout", "replicas", "config")
}

// addEventLogTo adds the flag of commands that take locks, or end them.
func (o *connectOptions) addEventLogTo(f *pflag.FlagSet) {
	f.BoolVar(&o.eventLog, "event-log", false, "record in Redis what happens to the lock, for tail --since and the dashboard")
}

// access completes what the flags say of the store at address.
func (o *connectOptions) access(ctx context.Context, address string, env output.Environment, report *output.Reporter) (access.Access, error) {
	kind := storeKind(address)
	a := access.Access{
		URL: address, Username: o.user, CACert: o.cacert, Cert: o.cert, Key: o.key, ServerName: o.sni, Insecure: o.insecure,
		DialTimeout: o.config.Duration(string(kind) + ".dial_timeout"),
	}
	password, err := o.fromConfig(&a, report)
	if err != nil {
		return a, err
	}
	if _, err := a.TLS(); err != nil {
		return a, output.UsageError("%w", err)
	}
	own, _ := redisurl.Passwords(address)
	switch {
	case o.askpass:
		a.Password, err = askPassword(ctx, env)
	case a.Found:
		if name := passwordVariable(env, kind); name != "" && !own && password == "" {
			report.Once(slog.LevelWarn, fmt.Sprintf("%s is not used: nobody has named %s, which names the store; do so with --config", name, o.config.Name()))
		}
		a.Password = password
	case !own:
		a.Password, err = storePassword(env, kind, report)
		a.Password = cmp.Or(a.Password, password)
	}
	if err == nil && endsLine(a.Password) {
		return a, output.UsageError("the password ends with the end of a line, and nobody types one: remove it (echo adds one where printf does not)")
	}
	return a, err
}

// warn says what is dangerous about the flags. A password on the command line is
// obeyed: everybody on the machine can read it.
func (o *connectOptions) warn(report *output.Reporter, addresses ...string) {
	inURL := func(address string) bool {
		_, anyPassword := redisurl.Passwords(address)
		return anyPassword
	}
	if o.url != "" && slices.ContainsFunc(addresses, inURL) {
		report.Once(slog.LevelWarn, "every user of this machine can read the password in --url; use HOLDFAST_URL, REDISCLI_AUTH, HOLDFAST_PASSWORD_FILE or --askpass")
	}
	if o.insecure {
		report.Once(slog.LevelWarn, "--insecure: certificates are not verified; anybody between here and the store can read the password and change the locks")
	}
}

// address returns the URL of the store and where it was found.
func (o *connectOptions) address(env output.Environment) (address, source string, err error) {
	address, source = o.url, "--url"
	if address == "" {
		source, _ = o.named(env)
		address, _ = env.Lookup(source)
		address = open.Complete(address)
	}
	if address == "" {
		if err := o.prepare(env, output.NewReporter(env, false)); err != nil {
			return "", "", err
		}
		address, source = o.configuredURL()
	}
	switch {
	case address == "" && o.imported != nil:
		return "", source, nil // several servers, of which one is the master
	case address == "" && len(o.config.List("redlock")) > 0:
		return "", "", output.UsageError("%s: only run, hold and elect can lock on several servers at once; name one of them with --url", o.config.Where("redlock"))
	case address == "":
		return "", "", output.UsageError("no store named; use --url redis://host:6379/0, or set HOLDFAST_URL")
	}
	return address, source, checkURL(address, source)
}

// checkURL refuses what is no URL of a store.
func checkURL(address, source string) error {
	if end := strings.TrimRight(address, " \t\r\n"); end != address {
		return output.UsageError("%s ends with a space or the end of a line: remove it (echo adds one where printf does not)", source)
	}
	if _, err := open.KindOf(address); err != nil {
		return output.UsageError("%s %w", source, err)
	}
	if u, _, err := redisurl.Parse(address); err == nil { // else opening it says what is wrong
		if password, _ := u.User.Password(); endsLine(password) {
			return output.UsageError("the password in %s ends with %%0A, the end of a line: remove it", source)
		}
	}
	return nil
}

func endsLine(text string) bool { return strings.TrimRight(text, "\r\n") != text }

// storeKind returns which store a URL names that was checked. Several servers of a Java
// program, which have none together, are Redis.
func storeKind(address string) open.Kind {
	kind, err := open.KindOf(address)
	if err != nil {
		return open.Redis
	}
	return kind
}

// named returns which variable, if any, names the store; ok says that the command
// line or the environment does.
func (o *connectOptions) named(env output.Environment) (variable string, ok bool) {
	for _, name := range []string{"HOLDFAST_URL", "REDIS_URL"} {
		if _, set := env.Lookup(name); set {
			return name, true
		}
	}
	return "", o.url != ""
}

// passwordVariable returns which variable has the password for a store of that kind.
func passwordVariable(env output.Environment, kind open.Kind) string {
	for _, name := range []string{"REDISCLI_AUTH", "HOLDFAST_PASSWORD_FILE"} {
		if _, ok := env.Lookup(name); ok && (kind == open.Redis || name != "REDISCLI_AUTH") {
			return name
		}
	}
	return ""
}

// storePassword returns the password that the environment has for a store of that kind.
func storePassword(env output.Environment, kind open.Kind, report *output.Reporter) (string, error) {
	name := passwordVariable(env, kind)
	text, _ := env.Lookup(name)
	if name != "HOLDFAST_PASSWORD_FILE" {
		return text, nil
	}
	return readPassword(name, text, report)
}

const (
	maxPassword = 64 << 10 // bytes of a file of a password
	maxLines    = 1 << 20  // of one of users, of tokens, or of a Java program
)

// readPassword returns the password in a file, which source names.
func readPassword(source, file string, report *output.Reporter) (string, error) {
	text, err := config.ReadFile(file, maxPassword)
	if err != nil {
		return "", output.UsageError("%s: %w", source, err)
	}
	report.Exposed(config.Exposed(file))
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", output.UsageError("%s: there is no password in %s", source, file)
	}
	return password, nil
}

// askPassword reads a password from the terminal, which does not show it. If ctx
// ends, so does the asking; what is typed then, the program has no use for.
func askPassword(ctx context.Context, env output.Environment) (string, error) {
	file, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return "", output.UsageError("--askpass: standard input is no terminal; use REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")
	}
	fd := int(file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("--askpass: %w", err)
	}
	fmt.Fprint(env.Stderr, "Password of the store: ")
	defer fmt.Fprintln(env.Stderr)
	type typed struct {
		text []byte
		err  error
	}
	answer := make(chan typed, 1)
	go func() { // a read of a terminal cannot be ended: it stays until a line is typed, or the program ends
		text, err := term.ReadPassword(fd)
		answer <- typed{text, err}
	}()
	select {
	case a := <-answer:
		if a.err == nil && len(a.text) == 0 {
			a.err = errors.New("no password was typed")
		}
		if a.err != nil {
			return "", output.UsageError("--askpass: %w", a.err)
		}
		return string(a.text), nil
	case <-ctx.Done():
		_ = term.Restore(fd, before) // else the terminal would go on hiding what is typed
		return "", context.Cause(ctx)
	}
}
