package store

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// Location says where the locks are kept, and how to reach the servers.
type Location struct {
	Kind    open.Kind
	Servers []open.Access // if there are several, a majority must agree on each lock
	Source  string        // where the URLs come from: --url, a variable, or a line of the configuration

	urls       []string
	configured bool // the configuration names the servers
}

// Locate returns the Location that the flags, the environment or the configuration name. All
// servers get the same user, password and certificates. Locate connects to nothing, but it may
// ask the user for a password. Call Configure before, unless only flags can name the store.
func (o *Connection) Locate(ctx context.Context, env output.Environment, report *output.Reporter) (*Location, error) {
	l, err := o.find(env)
	if err != nil {
		return nil, err
	}
	if len(l.urls) > 1 && !o.several {
		return nil, output.UsageError("%s: only run, hold and elect can lock on several servers at once; name one of them with --url", l.Source)
	}
	a := o.access
	a.DialTimeout = o.Config.Duration(string(l.Kind) + ".dial_timeout")
	if l.configured {
		a.Found, a.Imported = o.Config.Found, o.java
	}
	if _, err := a.TLS(); err != nil {
		return nil, output.UsageError("%w", err)
	}
	password := sync.OnceValues(func() (string, error) { return o.password(ctx, l, env, report) })
	for _, address := range l.urls {
		a.URL, a.Password = address, ""
		if own, _ := redisurl.Passwords(address); own && !o.askpass {
			o.passwordFrom = "the URL"
		} else if a.Password, err = password(); err != nil {
			return nil, err
		}
		l.Servers = append(l.Servers, a)
	}
	o.warn(report)
	return l, nil
}

// find returns a Location that has the URLs of the servers, and checks these URLs.
func (o *Connection) find(env output.Environment) (*Location, error) {
	l := &Location{Kind: open.Redis, Source: "--url"}
	variable := variableOfURL(env)
	configured := append(o.Config.List("redlock"), o.Config.List("url")...) // the file has only one of these two keys
	switch {
	case len(o.URLs) > 0:
		l.urls = slices.Clone(o.URLs)
	case variable != "":
		address, _ := env.Lookup(variable)
		l.urls, l.Source = []string{address}, variable
		l.configured = slices.Contains(configured, open.Complete(address))
	case len(o.Config.List("redlock")) > 0:
		l.urls, l.Source, l.configured = configured, o.Config.Where("redlock"), true
	case len(configured) > 0:
		l.urls, l.Source, l.configured = configured, o.Config.Where("url"), true
	default:
		return nil, output.UsageError("no store is named; use --url redis://host:6379/0, or set HOLDFAST_URL")
	}
	for i, address := range l.urls {
		if address == "" && o.java != nil {
			continue // a Java program has several servers, one of which is the master
		}
		l.urls[i] = open.Complete(address)
		if err := l.check(l.urls[i]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// variableOfURL returns the name of the variable that has the URL of the store, or "".
func variableOfURL(env output.Environment) string {
	for _, name := range []string{"HOLDFAST_URL", "REDIS_URL"} {
		if _, set := env.Lookup(name); set {
			return name
		}
	}
	return ""
}

// check returns an error if address is not the URL of a store, and sets the kind of the store.
func (l *Location) check(address string) (err error) {
	if end := strings.TrimRight(address, " \t\r\n"); end != address {
		return output.UsageError("%s ends with a space or the end of a line: remove it (echo adds the end of a line, printf does not)", l.Source)
	}
	if l.Kind, err = open.KindOf(address); err != nil {
		return output.UsageError("%s %w", l.Source, err)
	}
	if len(l.urls) > 1 && l.Kind != open.Redis {
		return output.UsageError("%s: a lock on several independent stores needs servers of Redis; for %s, give one URL, which may name all members of a cluster", l.Source, l.Kind.Title())
	}
	if u, _, err := redisurl.Parse(address); err == nil { // otherwise Open reports what is wrong
		if password, _ := u.User.Password(); endsLine(password) {
			return output.UsageError("the password in %s ends with %%0A, the end of a line: remove it", l.Source)
		}
	}
	return nil
}

func endsLine(text string) bool { return strings.TrimRight(text, "\r\n") != text }
