package store

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// Setting says where the value of a flag comes from if the flag is not given: from a
// variable, else from a key of the configuration.
type Setting struct{ Flag, Variable, Key string }

// storeSettings returns the settings of the flags that AddStoreTo and AddEventLogTo add.
func storeSettings() []Setting {
	return []Setting{
		{"prefix", "HOLDFAST_PREFIX", "prefix"},
		{"layout", "", "redis.layout"},
		{"replicas", "", "redis.replicas"},
		{"event-log", "", "event_log.enabled"},
	}
}

// Configure reads the configuration, and sets the flags that were not given: those of the
// store, and those in more.
func (o *Connection) Configure(f *pflag.FlagSet, env output.Environment, report *output.Reporter, more ...Setting) error {
	if err := o.prepare(env, report); err != nil {
		return err
	}
	o.sources = map[string]string{}
	for _, name := range []string{"layout", "replicas"} {
		if f.Changed(name) {
			o.redisFlag = cmp.Or(o.redisFlag, name)
		}
	}
	for _, s := range append(storeSettings(), more...) {
		flag := f.Lookup(s.Flag)
		if flag == nil || f.Changed(s.Flag) {
			continue
		}
		if err := o.fillIn(flag, s, env); err != nil {
			return err
		}
	}
	return nil
}

// fillIn sets a flag that was not given to the value in the environment, or else in the
// configuration.
func (o *Connection) fillIn(flag *pflag.Flag, s Setting, env output.Environment) error {
	source := s.Variable
	text, ok := env.Lookup(s.Variable)
	if !ok {
		if text, ok = o.Config.Lookup(s.Key); !ok {
			return o.fromJava(flag, s.Key)
		}
		if o.Config.Found() && strings.HasPrefix(s.Key, "serve.") {
			return output.UsageError("%s: a configuration that was found in this folder does not decide who may look, and where; name it with --config", o.Config.Where(s.Key))
		}
		source = o.Config.Where(s.Key)
		if several, can := flag.Value.(pflag.SliceValue); can {
			return several.Replace(o.Config.List(s.Key)) // Set would split a value at its commas
		}
	}
	o.sources[flag.Name] = source
	if err := flag.Value.Set(text); err != nil {
		return output.UsageError("%s=%q: %w; see --%s", source, text, err, s.Flag)
	}
	return nil
}

// fromJava sets the flag of the lease to the lease of the Java program. It ignores all other
// flags.
func (o *Connection) fromJava(flag *pflag.Flag, key string) error {
	if key != "lock.ttl" || o.Imported == nil || o.Imported.TTL == 0 {
		return nil
	}
	o.sources[flag.Name] = o.importedAt
	return flag.Value.Set(o.Imported.TTL.String())
}

// Given reports whether the user has set the value of a flag, on the command line or in the
// configuration.
func (o *Connection) Given(f *pflag.FlagSet, flag, key string) bool {
	_, configured := o.Config.Lookup(key)
	return f.Changed(flag) || configured
}

// prepare reads the configuration file, and the file of a Java program that it names. It does
// so only once. It does not read the file of a Java program if the command line or a variable
// names the store.
func (o *Connection) prepare(env output.Environment, report *output.Reporter) error {
	if o.Config != nil {
		return nil
	}
	if err := o.load(env, report); err != nil {
		return err
	}
	if _, elsewhere := o.named(env); elsewhere {
		return nil
	}
	return o.importJava(env, report)
}

// load reads the configuration file.
func (o *Connection) load(env output.Environment, report *output.Reporter) error {
	name := o.configName
	if name == "" {
		name, _ = env.Lookup("HOLDFAST_CONFIG")
	}
	find := config.Find
	if o.Completing {
		find = config.FindNamed
	}
	if name != "" {
		find = func(env func(string) (string, bool)) (*config.File, error) { return config.Read(name, env) }
	}
	file, err := find(env.Lookup)
	if err != nil {
		return output.UsageError("configuration: %w", err)
	}
	o.Config = file
	switch {
	case file.Found():
		report.Warn("settings are those of ./%s in this folder", file.Name())
	case file.Name() != "":
		report.Detail("settings are those of %s", file.Name())
	}
	report.Exposed(file.Exposed())
	return nil
}

// variables returns the function that looks up the variables of a file that the configuration
// names. For a configuration that was only found, it finds none.
func (o *Connection) variables(env output.Environment) func(string) (string, bool) {
	if o.Config.Found() {
		return func(string) (string, bool) { return "", false }
	}
	return env.Lookup
}

// importJava reads the file of a Java program that the configuration names, if it
// names one.
func (o *Connection) importJava(env output.Environment, report *output.Reporter) error {
	for _, key := range []string{"redisson", "spring"} {
		name, ok := o.Config.Lookup(key)
		if !ok {
			continue
		}
		o.importedAt = o.Config.Where(key)
		text, err := config.ReadFile(name, maxJava)
		if err != nil {
			return output.UsageError("%s: %w", o.importedAt, err)
		}
		if o.Imported, err = readJava(text, name, key == "spring", o.variables(env)); err != nil && o.Config.Found() {
			return output.UsageError("%s: %s, %w (it has no variables, because nobody has named %s: do so with --config)", o.importedAt, name, err, o.Config.Name())
		} else if err != nil {
			return output.UsageError("%s: %s, %w", o.importedAt, name, err)
		}
		reportIgnored(o.Imported, name, report, o.decides)
	}
	return nil
}

// decides reports whether the user has set the number of replicas, for an ignored key of Java
// that is about it.
func (o *Connection) decides(ignored importconf.Ignored) bool {
	_, configured := o.Config.Lookup("redis.replicas")
	return (configured || o.Replicas != "0") && strings.Contains(ignored.String(), "checkLockSyncedSlaves")
}

// configuredURL returns the URL in the configuration, and where it stands there.
func (o *Connection) configuredURL() (address, source string) {
	if o.Imported != nil {
		return o.Imported.URL, o.importedAt
	}
	if address, ok := o.Config.Lookup("url"); ok {
		return address, o.Config.Where("url")
	}
	return "", ""
}

// usesConfiguredURL reports whether the store is the one that the configuration names. The
// settings in the configuration are not for any other store: no password may go to the wrong
// server.
func (o *Connection) usesConfiguredURL(address string) bool {
	configured, _ := o.configuredURL()
	named := configured != "" && address == configured || slices.Contains(o.Config.List("redlock"), address)
	return o.Imported != nil || o.URL == "" && named
}

// fromConfig adds to a the settings of the configuration for its store. It returns the
// password of the configuration, and where it stands there.
func (o *Connection) fromConfig(a *access.Access, report *output.Reporter) (password, source string, err error) {
	if !o.usesConfiguredURL(a.URL) {
		return "", "", nil
	}
	a.Found = o.Config.Found()
	a.Imported = o.Imported
	in := string(KindOf(a.URL)) + "."
	a.Username = cmp.Or(a.Username, o.Config.Text(in+"user"))
	a.CACert = cmp.Or(a.CACert, o.Config.Text(in+"tls.ca"))
	a.Cert = cmp.Or(a.Cert, o.Config.Text(in+"tls.cert"))
	a.Key = cmp.Or(a.Key, o.Config.Text(in+"tls.key"))
	a.ServerName = cmp.Or(a.ServerName, o.Config.Text(in+"tls.server_name"))
	if o.Imported != nil && o.Imported.Password != "" {
		source = o.importedAt
	}
	for _, key := range []string{in + "password", in + "password_file"} {
		text, ok := o.Config.Lookup(key)
		switch {
		case !ok || text == "":
			continue
		case key == in+"password_file":
			text, err = readPassword(o.Config.Where(key), text, report)
		}
		return text, o.Config.Where(key), err
	}
	return "", source, nil
}

// redisOptions returns the settings of the locks of a Redis. The library logs to logger.
func (o *Connection) redisOptions(logger *slog.Logger) (*redishold.Options, error) {
	options := &redishold.Options{SharedTokens: o.Config.Yes("redis.shared_tokens"), KeyPrefix: o.Prefix, Logger: logger}
	switch o.layout {
	case "", "redisson":
	case "plain":
		options.Layout = redishold.Plain
	case "timestamp":
		options.Layout = redishold.Timestamp
	default:
		return nil, output.UsageError("--layout %q: use redisson, plain or timestamp", o.layout)
	}
	if length, ok := o.Config.Lookup("event_log.stream_maxlen"); ok {
		options.LogLength, _ = strconv.Atoi(length) // the configuration was checked
	}
	switch n, err := strconv.ParseUint(cmp.Or(o.Replicas, "0"), 10, 16); {
	case o.Replicas == "all":
		options.Replicas = redishold.AllReplicas
	case err != nil:
		return nil, output.UsageError("--replicas %q: use a number, or all", o.Replicas)
	default:
		options.Replicas = int(n)
	}
	if options.FairWait = o.Config.Duration("redis.fair_wait"); o.Imported != nil {
		options.FairWait = cmp.Or(options.FairWait, o.Imported.FairWait)
	}
	return options, nil
}
