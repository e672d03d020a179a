package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionNamesTheCommit(t *testing.T) {
	const commit, short = "0123456789abcdef0123456789abcdef01234567", "0123456789ab"
	for _, test := range []struct{ version, commit, want string }{
		{"v0.1.0", commit, "v0.1.0 " + short},
		{"v0.1.0", "", "v0.1.0"},
		{"v0.0.0-20261126124508-" + short, commit, "v0.0.0-20261126124508-" + short},
		{"(devel)", commit, "devel " + short},
		{"", "", "devel"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: test.version}}
		if test.commit != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: test.commit}}
		}
		if got := versionOf(info); got != test.want {
			t.Errorf("version %q, commit %q: got %q, want %q", test.version, test.commit, got, test.want)
		}
	}
}
