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

// Setting is where the value of a flag comes from when it is not given: from the
// environment, else from the configuration.
type Setting struct{ Flag, Variable, Key string }

// storeSettings are those of the flags that AddStoreTo and AddEventLogTo add.
func storeSettings() []Setting {
	return []Setting{
		{"prefix", "HOLDFAST_PREFIX", "prefix"},
		{"layout", "", "redis.layout"},
		{"replicas", "", "redis.replicas"},
		{"event-log", "", "event_log.enabled"},
	}
}

// Configure reads the configuration and fills in the flags that were not given: those of
// the connection, and those of more.
func (o *Connection) Configure(f *pflag.FlagSet, env output.Environment, report *output.Reporter, more ...Setting) error {
	if err := o.prepare(env, report); err != nil {
		return err
	}
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

// fillIn sets a flag that was not given to what the environment says, else to what
// the configuration does.
func (o *Connection) fillIn(flag *pflag.Flag, s Setting, env output.Environment) error {
	source := s.Variable
	text, ok := env.Lookup(s.Variable)
	if !ok {
		if text, ok = o.Config.Lookup(s.Key); !ok {
			return nil
		}
		if o.Config.Found() && strings.HasPrefix(s.Key, "serve.") {
			return output.UsageError("%s: a configuration that was found in this folder does not decide who may look, and where; name it with --config", o.Config.Where(s.Key))
		}
		source = o.Config.Where(s.Key)
		if several, can := flag.Value.(pflag.SliceValue); can {
			return several.Replace(o.Config.List(s.Key)) // Set would split a value with a comma in it
		}
	}
	if err := flag.Value.Set(text); err != nil {
		return output.UsageError("%s=%q: %w; see --%s", source, text, err, s.Flag)
	}
	return nil
}

// Given reports that a flag has a value that the user chose: on the command line
// or in the configuration.
func (o *Connection) Given(f *pflag.FlagSet, flag, key string) bool {
	_, configured := o.Config.Lookup(key)
	return f.Changed(flag) || configured
}

// prepare reads the configuration file, the first time, and what it names. The
// file of a Java program is not needed where the store is named otherwise.
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

// variables returns what looks up the variables of a file that the configuration names.
func (o *Connection) variables(env output.Environment) func(string) (string, bool) {
	if o.Config.Found() {
		return func(string) (string, bool) { return "", false }
	}
	return env.Lookup
}

// importJava reads the file of a Java program that the configuration names, if it
// names one.
func (o *Connection) importJava(env output.Environment, report *output.Reporter) error {
	var err error
	for _, read := range []struct {
		key  string
		file func(name string, text []byte) (*importconf.Settings, error)
	}{
		{"redisson", func(_ string, text []byte) (*importconf.Settings, error) {
			return importconf.Redisson(text, o.variables(env))
		}},
		{"spring", func(name string, text []byte) (*importconf.Settings, error) {
			return importconf.Spring(text, name, o.variables(env))
		}},
	} {
		name, ok := o.Config.Lookup(read.key)
		if !ok {
			continue
		}
		var text []byte
		if text, err = config.ReadFile(name, maxJava); err != nil {
			return output.UsageError("%s: %w", o.Config.Where(read.key), err)
		}
		if o.Imported, err = read.file(name, text); err != nil && o.Config.Found() {
			return output.UsageError("%s: %s, %w (it has no variables, because nobody has named %s: do so with --config)", o.Config.Where(read.key), name, err, o.Config.Name())
		} else if err != nil {
			return output.UsageError("%s: %s, %w", o.Config.Where(read.key), name, err)
		}
		for _, ignored := range o.Imported.Ignored {
			if ignored.Serious && !o.decides(ignored) {
				report.Warn("%s, %s", name, ignored)
			} else {
				report.Detail("%s, %s", name, ignored)
			}
		}
	}
	return nil
}

// decides reports that the user has said what an ignored key of Java leaves open.
func (o *Connection) decides(ignored importconf.Ignored) bool {
	_, configured := o.Config.Lookup("redis.replicas")
	return (configured || o.Replicas != "0") && strings.Contains(ignored.String(), "checkLockSyncedSlaves")
}

// configuredURL returns the URL that the configuration says, and where.
func (o *Connection) configuredURL() (address, source string) {
	if o.Imported != nil {
		return o.Imported.URL, o.Config.Where(cmp.Or(keyIn(o.Config, "redisson"), "spring"))
	}
	if address, ok := o.Config.Lookup("url"); ok {
		return address, o.Config.Where("url")
	}
	return "", ""
}

func keyIn(f *config.File, key string) string {
	if _, ok := f.Lookup(key); ok {
		return key
	}
	return ""
}

// usesConfiguredURL reports that the store is the one of the configuration. Of
// any other it says nothing: no password may go to the wrong server.
func (o *Connection) usesConfiguredURL(address string) bool {
	configured, _ := o.configuredURL()
	named := configured != "" && address == configured || slices.Contains(o.Config.List("redlock"), address)
	return o.Imported != nil || o.URL == "" && named
}

// fromConfig completes a with what the configuration says of its store, and
// returns the password that it has.
func (o *Connection) fromConfig(a *access.Access, report *output.Reporter) (password string, err error) {
	if !o.usesConfiguredURL(a.URL) {
		return "", nil
	}
	a.Found = o.Config.Found()
	a.Imported = o.Imported
	in := string(KindOf(a.URL)) + "."
	a.Username = cmp.Or(a.Username, o.Config.Text(in+"user"))
	a.CACert = cmp.Or(a.CACert, o.Config.Text(in+"tls.ca"))
	a.Cert = cmp.Or(a.Cert, o.Config.Text(in+"tls.cert"))
	a.Key = cmp.Or(a.Key, o.Config.Text(in+"tls.key"))
	a.ServerName = cmp.Or(a.ServerName, o.Config.Text(in+"tls.server_name"))
	if password = o.Config.Text(in + "password"); password != "" {
		return password, nil
	}
	if file, ok := o.Config.Lookup(in + "password_file"); ok {
		return readPassword(o.Config.Where(in+"password_file"), file, report)
	}
	return "", nil
}

// redisOptions returns the settings of the locks of a Redis. Their library logs to logger.
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
	if o.Imported != nil {
		options.FairWait = o.Imported.FairWait
	}
	return options, nil
}
