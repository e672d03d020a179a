//go:build unix

package clitest

import (
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/internal/must"
)

// The command line tool takes the same URLs.
func TestCLIOnDeployments(t *testing.T) {
	binary := must.Build(t)
	for _, top := range []redistest.Topology{redistest.Sentinel, redistest.Cluster} {
		t.Run(string(top), func(t *testing.T) {
			t.Parallel()
			d := redistest.StartDeployment(t, top)
			out, err := exec.Command(binary, "run", "--url", d.URL(), "job", "--", "echo", "done").CombinedOutput()
			if err != nil || string(out) != "done\n" {
				t.Errorf("got %v and %q", err, out)
			}
			if n := d.Master("job").Int("EXISTS", "job"); n != 0 {
				t.Error("the lock was left behind")
			}
		})
	}
}
