// Command holdfast runs commands under a distributed lock.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	args := ownArguments()
	os.Exit(run(context.Background(), args, os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the program without its process: tests call it. It returns the status
// to exit with.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	env := environment{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ}
	root := newRootCommand(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: exitFailure, err: err}
	}
	if exit.err != nil {
		newReporter(env, false).failure(exit.err)
	}
	return exit.code
}

// environment is what a command has of its process. Commands use nothing else
// of it.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // "NAME=value"
}

// lookup returns the value of an environment variable, and whether it is set to
// something. As with the shell's ${NAME:-…}, an empty value counts as unset.
func (e environment) lookup(name string) (string, bool) {
	for i := len(e.environ) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(e.environ[i], "="); key == name {
			return value, value != ""
		}
	}
	return "", false
}

func newRootCommand(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Run commands under a distributed lock",
		Long: `Holdfast runs commands under a lock that all machines share in Redis, etcd, ZooKeeper,
PostgreSQL or MySQL. In Redis it has the layout of Redisson, so that Go and
Java programs exclude each other; in etcd that of "etcdctl lock"; in ZooKeeper that of
Curator.

Name the store with --url, HOLDFAST_URL, REDIS_URL or a configuration file; see
"holdfast help urls".`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		Version:       versionLine(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of this program") // without cobra's -v, which is --verbose
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %q", err, cmd.CommandPath()+" --help")
	})
	root.AddGroup(groups()...)
	root.AddCommand(grouped("run", newRunCommand(env), newHoldCommand(env), newElectCommand(env))...)
	root.AddCommand(grouped("look", newListCommand(env), newInspectCommand(env), newTailCommand(env), newStatusCommand(env))...)
	root.AddCommand(grouped("repair", newForceUnlockCommand(env), newResizeCommand(env), newDoctorCommand(env))...)
	root.AddCommand(grouped("serve", newServeCommand(env), newDemoCommand(env))...)
	root.AddCommand(newVersionCommand(env), newConfigurationTopic(), newURLsTopic())
	setHelp(root)
	refuseOtherShells(root)
	completeValues(root)
	return root
}

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := "no command %q; see %q"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usageError(message+"; did you mean %q?", args[0], cmd.CommandPath()+" --help", near[0])
	}
	return usageError(message, args[0], cmd.CommandPath()+" --help")
}
