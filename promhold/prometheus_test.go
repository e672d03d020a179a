package promhold_test

import (
	"cmp"
	"os"
	"os/exec"
	"testing"
)

// TestRulesInPrometheus runs the alerts in promtool, where they fire and where they must
// not. Without promtool it is skipped: HOLDFAST_PROMTOOL names it, or the search path has it.
func TestRulesInPrometheus(t *testing.T) {
	readFile(t, rulesFile)
	promtool, err := exec.LookPath(cmp.Or(os.Getenv("HOLDFAST_PROMTOOL"), "promtool"))
	if err != nil {
		t.Skipf("no promtool: %v", err)
	}
	if text, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "testdata/alerts_test.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, text)
	}
}
