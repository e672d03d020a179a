package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Explain returns the store that the flags, the environment and the configuration name, how the
// program reaches that store, and the settings of its locks. Each setting has its source. Explain
// connects to nothing, and returns no password. Call Configure with the same `settings` before.
func (o *Connection) Explain(ctx context.Context, f *pflag.FlagSet, settings []Setting, env output.Environment, report *output.Reporter) ([]output.Setting, error) {
	typed := o.askpass
	o.askpass = false
	l, err := o.Locate(ctx, env, report)
	if err != nil {
		return nil, err
	}
	all := []output.Setting{{Name: "configuration", Value: cmp.Or(o.Config.Name, "none")}}
	for _, a := range l.Servers {
		if _, err := open.Parse(open.Request{Access: a}); err != nil {
			return nil, output.UsageError("%s: %w", l.Source, err)
		}
		all = append(all, output.Setting{Name: "store", Value: a.Place(), Source: l.Source})
	}
	add := func(flag *pflag.Flag) {
		all = append(all, output.Setting{Name: flag.Name, Value: flag.Value.String(), Source: cmp.Or(o.sources[flag.Name], "--"+flag.Name)})
	}
	credentials := append(credentialSettings(l.Kind), Setting{Flag: "insecure"})
	for _, s := range credentials {
		if flag := f.Lookup(s.Flag); flag.Value.String() != flag.DefValue {
			add(flag)
		}
	}
	if typed {
		o.passwordFrom = "--askpass"
	}
	if o.passwordFrom != "" {
		all = append(all, output.Setting{Name: "password", Value: "(hidden)", Source: o.passwordFrom})
	}
	settings = append(storeSettings(), settings...)
	for _, s := range settings {
		if l.Kind == open.Redis || strings.HasPrefix(s.Key, "lock.") {
			add(f.Lookup(s.Flag))
		}
	}
	return append(all, o.otherKeys(string(l.Kind), append(settings, credentials...))...), nil
}

// otherKeys returns the settings in the configuration that no Setting in `flags` has, from the
// sections `kind`, lock, event_log and serve. It leaves out passwords.
func (o *Connection) otherKeys(kind string, flags []Setting) (all []output.Setting) {
	for _, key := range config.Keys() {
		section, name, _ := strings.Cut(key, ".")
		hasFlag := slices.ContainsFunc(flags, func(s Setting) bool { return s.Key == key })
		if hasFlag || strings.HasPrefix(name, "password") || !slices.Contains([]string{kind, "lock", "event_log", "serve"}, section) {
			continue
		}
		if text, ok := o.Config.Lookup(key); ok {
			all = append(all, output.Setting{Name: key, Value: text, Source: o.Config.Where(key)})
		}
	}
	return all
}
