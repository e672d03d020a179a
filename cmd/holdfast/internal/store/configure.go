package store

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/redishold"
)

// Setting says where a flag gets its value if the flag is not given. The value comes from the
// variable if it is set, otherwise from the key in the configuration.
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

// credentialSettings returns the settings of the flags for the user and for the certificates of
// a store of this kind. The password has no flag.
func credentialSettings(kind open.Kind) []Setting {
	section := string(kind) + "."
	return []Setting{
		{"user", "", section + "user"},
		{"cacert", "", section + "tls.ca"},
		{"cert", "", section + "tls.cert"},
		{"key", "", section + "tls.key"},
		{"sni", "", section + "tls.server_name"},
	}
}

// Configure reads the configuration, and sets the flags that were not given: the flags of the
// store, and the flags in `more`. It uses the credentials in the configuration only for the
// store that the configuration names.
func (o *Connection) Configure(f *pflag.FlagSet, env output.Environment, report *output.Reporter, more ...Setting) error {
	if err := o.prepare(env, report); err != nil {
		return err
	}
	settings := append(storeSettings(), more...)
	if l, err := o.find(env); err == nil && l.configured { // Locate reports the error
		settings = append(settings, credentialSettings(l.Kind)...)
	}
	o.sources = map[string]string{}
	for _, s := range settings {
		switch flag := f.Lookup(s.Flag); {
		case flag == nil:
		case !flag.Changed:
			if err := o.fillIn(flag, s, env); err != nil {
				return err
			}
		case strings.HasPrefix(s.Key, "redis."):
			o.redisFlag = cmp.Or(o.redisFlag, s.Flag)
		}
	}
	return nil
}

// fillIn sets a flag that was not given. The value is that of the environment variable, else
// that in the configuration.
func (o *Connection) fillIn(flag *pflag.Flag, s Setting, env output.Environment) error {
	source := s.Variable
	text, ok := env.Lookup(s.Variable)
	if !ok {
		if text, ok = o.Config.Lookup(s.Key); !ok {
			o.sources[s.Flag] = "default"
			return nil
		}
		if o.Config.Found && strings.HasPrefix(s.Key, "serve.") {
			return output.UsageError("%s: holdfast found this configuration in the current folder by itself, and so does not use it for the settings of serve; name the file with --config", o.Config.Where(s.Key))
		}
		source = o.Config.Where(s.Key)
		if several, can := flag.Value.(pflag.SliceValue); can {
			return several.Replace(o.Config.List(s.Key)) // Set would split a value at its commas
		}
	}
	o.sources[s.Flag] = source
	if err := flag.Value.Set(text); err != nil {
		return output.UsageError("%s=%q: %w; see --%s", source, text, err, s.Flag)
	}
	return nil
}

// Given reports whether the user has set the value of a flag: on the command line, in a variable
// or in the configuration. Configure must have been called with the flag's Setting.
func (o *Connection) Given(flag string) bool { return o.sources[flag] != "default" }

// prepare reads the configuration file, and the file of a Java program that the configuration
// names. A second call does nothing. If the command line or a variable names the store, prepare
// does not read the file of a Java program.
func (o *Connection) prepare(env output.Environment, report *output.Reporter) error {
	if o.loaded {
		return nil
	}
	name, _ := env.Lookup("HOLDFAST_CONFIG")
	file, err := config.Read(cmp.Or(o.configName, name), o.Completing, env.Lookup, report.Waiting)
	if err != nil {
		return output.UsageError("configuration: %w", err)
	}
	o.Config, o.loaded = file, true
	switch {
	case file.Found:
		report.Warn("the settings come from ./%s in this folder", file.Name)
	case file.Name != "":
		report.Detail("the settings come from %s", file.Name)
	}
	report.Exposed(config.Exposed(file.Name, file.Secret))
	if len(o.URLs) > 0 || variableOfURL(env) != "" {
		return nil
	}
	return o.addJava(env, report)
}

// redisOptions returns the settings of the locks of a Redis. The library logs to logger.
func (o *Connection) redisOptions(logger *slog.Logger) (*redishold.Options, error) {
	layouts := []redishold.Layout{redishold.Redisson, redishold.Plain, redishold.Timestamp}
	at := slices.IndexFunc(layouts, func(l redishold.Layout) bool { return l.String() == cmp.Or(o.layout, "redisson") })
	if at < 0 {
		return nil, output.UsageError("--layout %q: use redisson, plain or timestamp", o.layout)
	}
	options := &redishold.Options{
		Layout: layouts[at], KeyPrefix: o.Prefix, Logger: logger,
		SharedTokens: o.Config.Text("redis.shared_tokens") == "true", FairWait: o.Config.Duration("redis.fair_wait"),
	}
	options.LogLength, _ = strconv.Atoi(o.Config.Text("event_log.stream_maxlen")) // 0, the default, if it is not set
	switch n, err := strconv.ParseUint(cmp.Or(o.Replicas, "0"), 10, 16); {
	case o.Replicas == "all":
		options.Replicas = redishold.AllReplicas
	case err != nil:
		return nil, output.UsageError("--replicas %q: use a number, or all", o.Replicas)
	default:
		options.Replicas = int(n)
	}
	return options, nil
}
