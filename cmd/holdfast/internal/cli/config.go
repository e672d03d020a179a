package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// newConfigCommand returns the command "config" with its subcommands.
func newConfigCommand(env output.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration, or make one from the file of a Java program",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newCheckCommand(env), newImportCommand(env))
	return cmd
}

// newCheckCommand returns the command "config check". It has the flags of a connection, and
// shows the settings that "holdfast run" would use.
func newCheckCommand(env output.Environment) *cobra.Command {
	o := &runOptions{}
	o.Name = "name"
	all := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addTo(all)
	json := false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Show what the settings mean, and where each comes from",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(all, env); err != nil {
				return err
			}
			settings, err := o.Explain(cmd.Context(), all, lockSettings(), env, output.NewReporter(env, o.verbose))
			if err != nil {
				return err
			}
			return output.PrintSettings(env.Stdout, settings, json)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&json, "json", false, "print JSON, an object on each line")
	f.AddFlag(all.Lookup("verbose"))
	all.VisitAll(func(flag *pflag.Flag) {
		if store.IsFlag(flag.Name) {
			f.AddFlag(flag)
		}
	})
	return cmd
}

func newImportCommand(env output.Environment) *cobra.Command {
	var to string
	var verbose bool
	cmd := &cobra.Command{
		Use:                   "import [flags] FILE",
		Short:                 "Write a holdfast.yaml with the settings of a Java program's configuration file",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return output.UsageError("give one file; use: %s", cmd.UseLine())
			}
			report := output.NewReporter(env, verbose)
			text, err := store.Import(args[0], to, env, report)
			if err != nil {
				return err
			}
			if to == "-" {
				_, err := env.Stdout.Write(text)
				return err
			}
			if err := writeNew(to, text); err != nil {
				return err
			}
			report.Line(output.LevelNotice, fmt.Sprintf("wrote %s; \"holdfast config check --config %[1]s\" shows what it means", to))
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "holdfast.yaml", "the file to write; - is standard output")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what happens")
	return cmd
}

// writeNew creates a file that only the user of this process can read, because the text may
// contain a password. It returns an error if the file exists.
func writeNew(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: remove it, or name another file with --to", name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return cmp.Or(err, file.Close())
}
