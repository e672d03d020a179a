package store

import (
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/internal/redisurl"
)

// Address returns the URL of the store and where it was found.
func (o *Connection) Address(env output.Environment) (address, source string, err error) {
	address, source = o.URL, "--url"
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
	case address == "" && o.Imported != nil:
		return "", source, nil // several servers, one of which is the master
	case address == "" && len(o.Config.List("redlock")) > 0:
		return "", "", output.UsageError("%s: only run, hold and elect can lock on several servers at once; name one of them with --url", o.Config.Where("redlock"))
	case address == "":
		return "", "", output.UsageError("no store named; use --url redis://host:6379/0, or set HOLDFAST_URL")
	}
	return address, source, checkURL(address, source)
}

// checkURL returns an error if address is not the URL of a store. The parameter source says
// where it was found.
func checkURL(address, source string) error {
	if end := strings.TrimRight(address, " \t\r\n"); end != address {
		return output.UsageError("%s ends with a space or the end of a line: remove it (echo adds one where printf does not)", source)
	}
	if _, err := open.KindOf(address); err != nil {
		return output.UsageError("%s %w", source, err)
	}
	if u, _, err := redisurl.Parse(address); err == nil { // otherwise Open reports what is wrong
		if password, _ := u.User.Password(); endsLine(password) {
			return output.UsageError("the password in %s ends with %%0A, the end of a line: remove it", source)
		}
	}
	return nil
}

func endsLine(text string) bool { return strings.TrimRight(text, "\r\n") != text }

// KindOf returns the kind of store of a URL that was checked. If there is no URL, because a
// Java program has several servers, it is Redis.
func KindOf(address string) open.Kind {
	kind, err := open.KindOf(address)
	if err != nil {
		return open.Redis
	}
	return kind
}

// named returns the variable that names the store, or "". It returns true if the command line
// or a variable names the store.
func (o *Connection) named(env output.Environment) (variable string, ok bool) {
	for _, name := range []string{"HOLDFAST_URL", "REDIS_URL"} {
		if _, set := env.Lookup(name); set {
			return name, true
		}
	}
	return "", o.URL != ""
}
