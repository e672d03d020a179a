package store

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/config"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/open"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// passwordVariable returns the variable that has the password for a store of that kind, or
// "".
func passwordVariable(env output.Environment, kind open.Kind) string {
	for _, name := range []string{"REDISCLI_AUTH", "HOLDFAST_PASSWORD_FILE"} {
		if _, ok := env.Lookup(name); ok && (kind == open.Redis || name != "REDISCLI_AUTH") {
			return name
		}
	}
	return ""
}

// storePassword returns the password in the environment for a store of that kind, or "".
func storePassword(env output.Environment, kind open.Kind, report *output.Reporter) (string, error) {
	name := passwordVariable(env, kind)
	text, _ := env.Lookup(name)
	if name != "HOLDFAST_PASSWORD_FILE" {
		return text, nil
	}
	return readPassword(name, text, report)
}

const maxPassword = 64 << 10 // bytes of a file of a password

// readPassword returns the password in a file. The parameter source says where the name of
// the file comes from.
func readPassword(source, file string, report *output.Reporter) (string, error) {
	text, err := config.ReadFile(file, maxPassword)
	if err != nil {
		return "", output.UsageError("%s: %w", source, err)
	}
	report.Exposed(config.Exposed(file))
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
		return "", output.UsageError("--askpass: standard input is no terminal; use REDISCLI_AUTH or HOLDFAST_PASSWORD_FILE")
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
