package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func newVersionCommand(env output.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(env.Stdout, versionLine())
			return err
		},
	}
}

func versionLine() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return fmt.Sprintf("holdfast %s %s %s/%s", versionOf(info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionOf returns the module's version and the commit of the build, as far as they are
// known. After go install of a version the commit is not known. The version of a clone
// without a tag contains the commit, which is then not repeated.
func versionOf(info *debug.BuildInfo) string {
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if commit := s.Value[:min(12, len(s.Value))]; s.Key == "vcs.revision" && !strings.Contains(v, commit) {
			return v + " " + commit
		}
	}
	return v
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return output.UsageError("%s takes no arguments; see %q", cmd.CommandPath(), cmd.CommandPath()+" --help")
	}
	return nil
}
