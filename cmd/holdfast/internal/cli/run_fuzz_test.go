package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// nobody is a store that refuses connections.
const nobody = "redis://127.0.0.1:1"

// words splits what a fuzzer made into arguments or variables, which have no
// zero byte in them.
func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// harmless reports that a command line neither reaches for another server than
// the tests' own, nor is one that starts this binary again or
// goes on forever: demo, serve, elect.
func harmless(args []string) bool {
	for _, arg := range args {
		if strings.Contains(strings.ReplaceAll(arg, nobody, ""), "://") {
			return false
		}
	}
	cmd, _, _ := newRootCommand(output.Environment{}).Find(args)
	return cmd == nil || !slices.Contains([]string{"demo", "worker", "serve", "elect"}, cmd.Name())
}

// settingsOnly returns the variables that say how, but not where to.
func settingsOnly(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"HOLDFAST_URL", "REDIS_URL", "HOLDFAST_PASSWORD_FILE", "WITNESS", "PATH"}, name)
	})
}

// commandLines has one on each line, with | between the arguments.
const commandLines = `
run
run|a|--|witness|x
run|-n|a|witness
run|a|-n|witness|-n
run|--|a|--|witness
run|a|--|--|witness
run||witness
run|a|
run|-h|a|witness
run|a|-h|witness
run|a|witness|-h
run|-w|0|a|witness
run|--shell|a|witness x
run|--ttl=1ns|a|witness
run|-t|9999999h|a|witness
run|--url|` + nobody + `|a|witness
run|--url|x|a|witness
run|--prefix|{|a|witness
run|-E|256|a|witness
run|--signal|KILL|a|witness
run|--signal|-1|a|witness
run|--no-renew|--at-least|1h|a|witness
run|--max-hold|-1s|a|witness
run|-nvw1s|a|witness
run|a|run|b|witness
run|--reason|\t|a|--|witness|--|x
run|--shared|--fair|a|witness
run|--config|/dev/zero|a|witness
run|--config||a|witness
version
help|run
--help
rum
completion|bash
__complete|run|
--|run|a|witness
`

func addCommandLines(f *testing.F) {
	for line := range strings.Lines(commandLines) {
		f.Add(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "|", "\x00"), "")
	}
	f.Add("run\x00\xff\x1b\x00witness\x00\xff", "")
	f.Add("run\x00a\x00witness", "HOLDFAST_TTL=x\x00HOLDFAST_LOG_LEVEL=debug")
	f.Add("run\x00a\x00witness", "HOLDFAST_LOG_FORMAT=json\x00=\x00=x\x00HOLDFAST_PREFIX={}")
	f.Add("run\x00a\x00witness", "REDISCLI_AUTH=secret\x00NO_COLOR")
}

// FuzzArguments calls the program with any arguments and environment, and a store
// that is not there: it never panics, never hangs, and ends well only where it
// had nothing to do but to say something.
func FuzzArguments(f *testing.F) {
	addCommandLines(f)
	f.Fuzz(func(t *testing.T, line, variables string) {
		args := words(line)
		if !harmless(args) {
			return
		}
		environ := append(settingsOnly(words(variables)), "HOLDFAST_URL="+nobody)
		got := call(t, environ, args...)
		switch got.code {
		case output.ExitOK:
			if got.stdout == "" && got.stderr == "" {
				t.Errorf("%q: status 0, and not a word", args)
			}
		case output.ExitFailure, output.ExitUsage, output.ExitUnreachable, 126, 127:
			if got.stderr == "" {
				t.Errorf("%q: status %d, and nobody knows why", args, got.code)
			}
		default:
			t.Errorf("%q: status %d: %s", args, got.code, got.stderr)
		}
		if strings.Contains(got.stdout+got.stderr, "secret") && !strings.Contains(line, "secret") {
			t.Errorf("%q: the password is shown: %s", args, got.stderr)
		}
	})
}

// FuzzCommand calls the program with any arguments and a lock that is free: it
// runs a command only if the arguments name it, with just the arguments that
// follow its name.
func FuzzCommand(f *testing.F) {
	addCommandLines(f)
	dir := f.TempDir()
	script := "#!/bin/sh\nprintf '%s\\0' witness \"$@\" > \"$WITNESS\"\n"
	if err := os.WriteFile(filepath.Join(dir, "witness"), []byte(script), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Setenv("PATH", dir) // there is nothing else to run
	server := miniredis.RunT(f)
	f.Fuzz(func(t *testing.T, line, variables string) {
		args := words(line)
		if !harmless(args) || strings.Contains(line, "/") || strings.Contains(line, nobody) {
			return
		}
		server.FlushAll()
		seen := filepath.Join(t.TempDir(), "seen")
		environ := append(settingsOnly(words(variables)), "HOLDFAST_URL=redis://"+server.Addr(), "WITNESS="+seen)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		got := begin(t, ctx, strings.NewReader(""), environ, args...).wait()

		text, err := os.ReadFile(seen)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		ran := words(strings.TrimSuffix(string(text), "\x00"))
		if err != nil {
			ran = nil
		}
		judgeRun(t, args, ran, got)
	})
}

// judgeRun compares what ran with what the arguments said.
func judgeRun(t *testing.T, args, ran []string, got result) {
	t.Helper()
	if plainly := len(args) > 3 && args[0] == "run" && args[1] != "" && args[1][0] != '-' && args[2] == "--" && args[3] == "witness"; plainly {
		if !slices.Equal(ran, args[3:]) || got.code != output.ExitOK {
			t.Errorf("%q: ran %q with status %d: %s", args, ran, got.code, got.stderr)
		}
		return
	}
	if ran == nil {
		return
	}
	before := args[:max(0, len(args)-len(ran))]
	askedForHelp := len(before) == 3 && (before[1] == "-h" || before[2] == "-h")
	if !slices.Equal(args[len(before):], ran) || len(before) < 2 || !slices.Contains(before, "run") || askedForHelp {
		t.Errorf("%q: ran %q", args, ran)
	}
}
