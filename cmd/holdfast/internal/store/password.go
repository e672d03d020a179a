package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// password returns the password of the store, or "", and sets passwordFrom. If the user has not
// named the configuration, the store in it gets no password from the environment.
func (o *Connection) password(ctx context.Context, l *Location, env output.Environment, report *output.Reporter) (string, error) {
	if o.askpass {
		o.passwordFrom = "--askpass"
		return askPassword(ctx, env)
	}
	lookup := func(name string) string { text, _ := env.Lookup(name); return text }
	key := string(l.Kind) + ".password"
	places := []struct {
		source, text               string
		counts, isFile, isVariable bool
	}{
		{"REDISCLI_AUTH", lookup("REDISCLI_AUTH"), l.Kind == open.Redis, false, true},
		{"HOLDFAST_PASSWORD_FILE", lookup("HOLDFAST_PASSWORD_FILE"), true, true, true},
		{o.Config.Where(key), o.Config.Text(key), l.configured, false, false},
		{o.Config.Where(key + "_file"), o.Config.Text(key + "_file"), l.configured, true, false},
	}
	unused := ""
	for _, p := range places {
		switch {
		case p.text == "" || !p.counts:
			continue
		case p.isVariable && l.configured && o.Config.Found:
			unused = cmp.Or(unused, p.source)
			continue
		}
		o.passwordFrom = p.source
		if p.isFile {
			return readPassword(p.source, p.text, report)
		}
		if endsLine(p.text) {
			return "", output.UsageError("the password ends with the end of a line, which is probably a mistake: remove it (echo adds the end of a line, printf does not)")
		}
		return p.text, nil
	}
	if unused != "" {
		report.Once(slog.LevelWarn, fmt.Sprintf("%s is not used, because holdfast found %s, which names the store, by itself: name that file with --config", unused, o.Config.Name))
	}
	return "", nil
}

// readPassword returns the password in a file. The text `source` says where the name of the
// file comes from.
func readPassword(source, file string, report *output.Reporter) (string, error) {
	text, err := config.ReadFileOrWait(file, report.Waiting)
	if err != nil {
		return "", output.UsageError("%s: %w", source, err)
	}
	report.Exposed(config.Exposed(file, true))
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", output.UsageError("%s: there is no password in %s", source, file)
	}
	return password, nil
}

// askPassword reads a password from the terminal, without showing it.
func askPassword(ctx context.Context, env output.Environment) (string, error) {
	file, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return "", output.UsageError("--askpass: standard input is not a terminal; use REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")
	}
	fd := int(file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("--askpass: %w", err)
	}
	fmt.Fprint(env.Stderr, "Password of the store: ")
	defer fmt.Fprintln(env.Stderr)
	password, err := output.Typed(ctx, func() (string, error) {
		text, err := term.ReadPassword(fd)
		return string(text), err
	})
	switch {
	case ctx.Err() != nil:
		_ = term.Restore(fd, before) // otherwise the terminal would still hide what the user types
		return "", err
	case err != nil:
		return "", output.UsageError("--askpass: %w", err)
	case password == "":
		return "", output.UsageError("--askpass: no password was typed")
	}
	return password, nil
}
