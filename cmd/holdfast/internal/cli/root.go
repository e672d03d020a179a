package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Main runs the program with the arguments, the streams and the environment of its process.
// It returns the exit status.
func Main() int {
	env := output.Environment{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
	return run(context.Background(), ownArguments(), env)
}

// run runs the program with the given arguments and environment; tests call it. It returns
// the exit status.
func run(ctx context.Context, args []string, env output.Environment) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return output.ExitOK
	}
	exit, ok := errors.AsType[*output.ExitError](err)
	if !ok {
		exit = &output.ExitError{Code: output.ExitFailure, Err: err}
	}
	if exit.Err != nil {
		output.NewReporter(env, false).Failure(exit.Err)
	}
	return exit.Code
}

func newRootCommand(env output.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:           "holdfast",
		Short:         "Run commands under a distributed lock",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		Version:       versionLine(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of this program") // otherwise cobra adds a flag --version with the short name -v, which --verbose has here
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return output.UsageError("%w; see %q", plainFlagError(err), cmd.CommandPath()+" --help")
	})
	sections := []section{
		{"Run under a lock", []*cobra.Command{newRunCommand(env), newHoldCommand(env), newElectCommand(env)}},
		{"Look at locks", []*cobra.Command{newListCommand(env), newInspectCommand(env), newStatusCommand(env), newTailCommand(env), newServeCommand(env)}},
		{"Repair", []*cobra.Command{newForceUnlockCommand(env), newDoctorCommand(env), newResizeCommand(env)}},
		{"Try and set up", []*cobra.Command{newDemoCommand(env), newConfigCommand(env), newManCommand(env), newVersionCommand(env)}},
		{"Topics", []*cobra.Command{
			{Use: "urls", Short: "The URLs of stores, and passwords"},
			{Use: "configuration", Short: "The configuration file and the environment"},
			{Use: "exit-status", Short: "The exit statuses of all commands"},
		}},
	}
	for _, s := range sections {
		root.AddCommand(s.cmds...)
	}
	addTexts(root)
	refuseOtherShells(root)
	refuseOtherTopics(root)
	setHelp(root, sections)
	completeValues(root)
	return root
}

// plainFlagError returns err, the error of a flag. If the flag takes a number, or true or false,
// plainFlagError replaces the text of package strconv.
func plainFlagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag, value := invalid.GetFlag(), invalid.GetValue()
	wrong := ""
	switch kind := flag.Value.Type(); {
	case kind == "bool":
		wrong = "neither true nor false"
	case kind != "int" && kind != "uint64":
		return err
	case errors.Is(err, strconv.ErrRange):
		wrong = "too large"
	case kind == "uint64" && strings.HasPrefix(value, "-"):
		wrong = "negative"
	default:
		wrong = "no number"
	}
	return fmt.Errorf("--%s: %q is %s", flag.Name, value, wrong)
}
