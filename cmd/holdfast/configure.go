package main

import (
	"cmp"
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

// setting is where the value of a flag comes from when it is not given: from the
// environment, else from the configuration.
type setting struct{ flag, variable, key string }

// storeSettings are those of every command that looks for its store.
func storeSettings() []setting {
	return []setting{
		{"prefix", "HOLDFAST_PREFIX", "prefix"},
		{"layout", "", "redis.layout"},
		{"replicas", "", "redis.replicas"},
		{"event-log", "", "event_log.enabled"},
	}
}

// lockSettings are those of commands that take a lock.
func lockSettings() []setting {
	return append(
		storeSettings(),
		setting{"ttl", "HOLDFAST_TTL", "lock.ttl"},
		setting{"wait", "", "lock.wait"},
		setting{"max-hold", "", "lock.max_hold"},
		setting{"kill-after", "", "lock.kill_after"},
		setting{"fair", "", "lock.fair"},
	)
}

// configure reads the configuration and fills in the flags that were not given.
func (o *connectOptions) configure(f *pflag.FlagSet, env output.Environment, report *output.Reporter, settings []setting) error {
	if err := o.prepare(env, report); err != nil {
		return err
	}
	for _, name := range []string{"layout", "replicas"} {
		if f.Changed(name) {
			o.redisFlag = cmp.Or(o.redisFlag, name)
		}
	}
	for _, s := range settings {
		flag := f.Lookup(s.flag)
		if flag == nil || f.Changed(s.flag) {
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
func (o *connectOptions) fillIn(flag *pflag.Flag, s setting, env output.Environment) error {
	source := s.variable
	text, ok := env.Lookup(s.variable)
	if !ok {
		if text, ok = o.config.Lookup(s.key); !ok {
			return nil
		}
		if o.config.Found() && strings.HasPrefix(s.key, "serve.") {
			return output.UsageError("%s: a configuration that was found in this folder does not decide who may look, and where; name it with --config", o.config.Where(s.key))
		}
		source = o.config.Where(s.key)
		if several, can := flag.Value.(pflag.SliceValue); can {
			return several.Replace(o.config.List(s.key)) // Set would split a value with a comma in it
		}
	}
	if err := flag.Value.Set(text); err != nil {
		return output.UsageError("%s=%q: %w; see --%s", source, text, err, s.flag)
	}
	return nil
}

// given reports that a flag has a value that the user chose: on the command line
// or in the configuration.
func (o *connectOptions) given(f *pflag.FlagSet, flag, key string) bool {
	_, configured := o.config.Lookup(key)
	return f.Changed(flag) || configured
}

// prepare reads the configuration file, the first time, and what it names. The
// file of a Java program is not needed where the store is named otherwise.
func (o *connectOptions) prepare(env output.Environment, report *output.Reporter) error {
	if o.config != nil {
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
func (o *connectOptions) load(env output.Environment, report *output.Reporter) error {
	name := o.configName
	if name == "" {
		name, _ = env.Lookup("HOLDFAST_CONFIG")
	}
	find := config.Find
	if o.completing {
		find = config.FindNamed
	}
	if name != "" {
		find = func(env func(string) (string, bool)) (*config.File, error) { return config.Read(name, env) }
	}
	file, err := find(env.Lookup)
	if err != nil {
		return output.UsageError("configuration: %w", err)
	}
	o.config = file
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
func (o *connectOptions) variables(env output.Environment) func(string) (string, bool) {
	if o.config.Found() {
		return func(string) (string, bool) { return "", false }
	}
	return env.Lookup
}

// importJava reads the file of a Java program that the configuration names, if it
// names one.
func (o *connectOptions) importJava(env output.Environment, report *output.Reporter) error {
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
		name, ok := o.config.Lookup(read.key)
		if !ok {
			continue
		}
		var text []byte
		if text, err = config.ReadFile(name, maxLines); err != nil {
			return output.UsageError("%s: %w", o.config.Where(read.key), err)
		}
		if o.imported, err = read.file(name, text); err != nil && o.config.Found() {
			return output.UsageError("%s: %s, %w (it has no variables, because nobody has named %s: do so with --config)", o.config.Where(read.key), name, err, o.config.Name())
		} else if err != nil {
			return output.UsageError("%s: %s, %w", o.config.Where(read.key), name, err)
		}
		for _, ignored := range o.imported.Ignored {
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
func (o *connectOptions) decides(ignored importconf.Ignored) bool {
	_, configured := o.config.Lookup("redis.replicas")
	return (configured || o.replicas != "0") && strings.Contains(ignored.String(), "checkLockSyncedSlaves")
}

// configuredURL returns the URL that the configuration says, and where.
func (o *connectOptions) configuredURL() (address, source string) {
	if o.imported != nil {
		return o.imported.URL, o.config.Where(cmp.Or(keyIn(o.config, "redisson"), "spring"))
	}
	if address, ok := o.config.Lookup("url"); ok {
		return address, o.config.Where("url")
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
func (o *connectOptions) usesConfiguredURL(address string) bool {
	configured, _ := o.configuredURL()
	named := configured != "" && address == configured || slices.Contains(o.config.List("redlock"), address)
	return o.imported != nil || o.url == "" && named
}

// fromConfig completes a with what the configuration says of its store, and
// returns the password that it has.
func (o *connectOptions) fromConfig(a *access.Access, report *output.Reporter) (password string, err error) {
	if !o.usesConfiguredURL(a.URL) {
		return "", nil
	}
	a.Found = o.config.Found()
	a.Imported = o.imported
	in := string(storeKind(a.URL)) + "."
	a.Username = cmp.Or(a.Username, o.config.Text(in+"user"))
	a.CACert = cmp.Or(a.CACert, o.config.Text(in+"tls.ca"))
	a.Cert = cmp.Or(a.Cert, o.config.Text(in+"tls.cert"))
	a.Key = cmp.Or(a.Key, o.config.Text(in+"tls.key"))
	a.ServerName = cmp.Or(a.ServerName, o.config.Text(in+"tls.server_name"))
	if password = o.config.Text(in + "password"); password != "" {
		return password, nil
	}
	if file, ok := o.config.Lookup(in + "password_file"); ok {
		return readPassword(o.config.Where(in+"password_file"), file, report)
	}
	return "", nil
}

// engine returns the settings of the engine.
func (o *connectOptions) engine() (*redishold.Options, error) {
	options := &redishold.Options{SharedTokens: o.config.Yes("redis.shared_tokens")}
	switch o.layout {
	case "", "redisson":
	case "plain":
		options.Layout = redishold.Plain
	case "timestamp":
		options.Layout = redishold.Timestamp
	default:
		return nil, output.UsageError("--layout %q: use redisson, plain or timestamp", o.layout)
	}
	if length, ok := o.config.Lookup("event_log.stream_maxlen"); ok {
		options.LogLength, _ = strconv.Atoi(length) // the configuration was checked
	}
	switch n, err := strconv.ParseUint(cmp.Or(o.replicas, "0"), 10, 16); {
	case o.replicas == "all":
		options.Replicas = redishold.AllReplicas
	case err != nil:
		return nil, output.UsageError("--replicas %q: use a number, or all", o.replicas)
	default:
		options.Replicas = int(n)
	}
	if o.imported != nil {
		options.FairWait = o.imported.FairWait
	}
	return options, nil
}
