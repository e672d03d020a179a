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

// Explain returns which store the flags, the environment and the configuration name, how it
// is reached, and what the flags of f and the configuration say of its locks: of each where
// it comes from. It connects to nothing, and no password is in it. Configure, with these
// settings, comes before.
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

// sourceOf says where the value of a flag comes from.
func (o *Connection) sourceOf(flag *pflag.Flag) string {
	if flag.Changed {
		return "--" + flag.Name
	}
	return cmp.Or(o.sources[flag.Name], "default")
}

// proofs are what proves to the store who asks, and to the program who answers.
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

// otherKeys are the keys of the configuration that no flag of a lock shows: of the section of
// the store, of locks, of the event log and of serve.
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
