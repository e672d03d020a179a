package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/access"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Explain returns the store that the flags, the environment and the configuration name, how
// it is reached, and the settings of its locks. Each setting has its source. Explain connects
// to nothing, and returns no password. Call Configure with the same settings before.
func (o *Connection) Explain(ctx context.Context, f *pflag.FlagSet, settings []Setting, env output.Environment, report *output.Reporter) ([]output.Setting, error) {
	urls, source := o.servers(env)
	if len(urls) == 0 {
		address, from, err := o.Address(env)
		if err != nil {
			return nil, err
		}
		urls, source = []string{address}, from
	} else if _, err := Accesses(ctx, *o, source, urls, env, output.Silent()); err != nil {
		return nil, err
	}
	typed := o.askpass
	o.askpass = false
	all := []output.Setting{{Name: "configuration", Value: cmp.Or(o.Config.Name(), "none")}}
	var a access.Access
	for _, address := range urls {
		var err error
		if a, err = o.Access(ctx, address, env, report); err != nil {
			return nil, err
		}
		if _, err := open.Parse(open.Request{Access: a}); err != nil {
			return nil, output.UsageError("%s: %w", source, err)
		}
		all = append(all, output.Setting{Name: "store", Value: placeOf(a), Source: source})
	}
	if typed {
		o.passwordFrom = "--askpass"
	}
	kind := KindOf(a.URL)
	all = append(all, o.proofs(a, string(kind))...)
	for _, s := range append(storeSettings(), settings...) {
		if flag := f.Lookup(s.Flag); kind == open.Redis || strings.HasPrefix(s.Key, "lock.") {
			all = append(all, output.Setting{Name: s.Flag, Value: flag.Value.String(), Source: o.sourceOf(flag)})
		}
	}
	return append(all, o.otherKeys(string(kind), settings)...), nil
}

// sourceOf returns where the value of a flag comes from.
func (o *Connection) sourceOf(flag *pflag.Flag) string {
	if flag.Changed {
		return "--" + flag.Name
	}
	return cmp.Or(o.sources[flag.Name], "default")
}

// proofs returns the settings with which the store identifies the user, and the program
// identifies the store: user, password and certificates.
func (o *Connection) proofs(a access.Access, kind string) (all []output.Setting) {
	for _, s := range []struct{ flag, given, value, key string }{
		{"user", o.user, a.Username, "user"},
		{"cacert", o.cacert, a.CACert, "tls.ca"},
		{"cert", o.cert, a.Cert, "tls.cert"},
		{"key", o.key, a.Key, "tls.key"},
		{"sni", o.sni, a.ServerName, "tls.server_name"},
	} {
		switch {
		case s.given != "":
			all = append(all, output.Setting{Name: s.flag, Value: s.value, Source: "--" + s.flag})
		case s.value != "":
			all = append(all, output.Setting{Name: s.flag, Value: s.value, Source: o.Config.Where(kind + "." + s.key)})
		}
	}
	if i := a.Imported; i != nil && i.Username != "" && a.Username == "" {
		all = append(all, output.Setting{Name: "user", Value: i.Username, Source: o.importedAt})
	}
	if o.passwordFrom != "" {
		all = append(all, output.Setting{Name: "password", Value: "(hidden)", Source: o.passwordFrom})
	}
	if o.insecure {
		all = append(all, output.Setting{Name: "insecure", Value: "true", Source: "--insecure"})
	}
	return all
}

// otherKeys returns the keys of the configuration that are not shown as a flag: those of the
// store's section, of lock, of event_log and of serve.
func (o *Connection) otherKeys(kind string, settings []Setting) (all []output.Setting) {
	for _, key := range config.Keys() {
		section, name, inSection := strings.Cut(key, ".")
		shown := slices.ContainsFunc(append(storeSettings(), settings...), func(s Setting) bool { return s.Key == key })
		proof := section == kind && (name == "user" || strings.HasPrefix(name, "password") || strings.HasPrefix(name, "tls."))
		if !inSection || shown || proof || !slices.Contains([]string{kind, "lock", "event_log", "serve"}, section) {
			continue
		}
		text, ok := o.Config.Lookup(key)
		if list := o.Config.List(key); len(list) > 0 {
			text = strings.Join(list, ", ")
		}
		if ok {
			all = append(all, output.Setting{Name: key, Value: text, Source: o.Config.Where(key)})
		}
	}
	return all
}
