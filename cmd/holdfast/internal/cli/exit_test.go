package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// A system keeps eight bits of an exit status: 256 would be success.
func TestEveryExitCodeIsChecked(t *testing.T) {
	s := newSite(t)
	s.hold("job")
	checked := 0
	for _, cmd := range newRootCommand(output.Environment{}).Commands() {
		for _, flag := range exitCodeFlags(cmd) {
			for _, code := range []string{"-1", "256", "512", "1000"} {
				args := []string{cmd.Name(), "--" + flag + "=" + code, "job"}
				if cmd.Flags().Lookup("nonblock") != nil {
					args = append([]string{cmd.Name(), "-n"}, args[1:]...)
				}
				if cmd.Name() != "hold" {
					args = append(args, "true")
				}
				s.run(args...).want(t, output.ExitUsage, "--"+flag)
			}
			checked++
		}
	}
	if checked < 4 {
		t.Errorf("checked %d flags, want those of run, hold and elect", checked)
	}
	s.run("hold", "-n", "-E", "255", "job").want(t, 255, "is held by")
	s.run("hold", "-n", "-E", "0", "job").want(t, 0, "is held by")
}

func exitCodeFlags(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasSuffix(f.Name, "-exit-code") {
			names = append(names, f.Name)
		}
	})
	return names
}

// Windows has neither run nor elect: one sentence says so, and what there is.
func TestSystemsWithoutProcessGroups(t *testing.T) {
	err := checkSystem("elect", false)
	var exit *output.ExitError
	if !errors.As(err, &exit) || exit.Code != output.ExitUsage || !strings.Contains(err.Error(), "elect is not available on this system") {
		t.Errorf("got %v, want status %d and a sentence that says so", err, output.ExitUsage)
	}
	if err := checkSystem("run", true); err != nil {
		t.Errorf("got %v for a system that has them", err)
	}
}
