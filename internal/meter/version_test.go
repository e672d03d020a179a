package meter

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	const module = "github.com/holdfast-go/holdfast"
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/shop", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: module + "/promhold", Version: "v2.0.0"}, {Path: module, Version: "v1.2.3"}}}, "v1.2.3"},
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.0.0"}}, "v1.0.0"},
		{debug.BuildInfo{Main: debug.Module{Path: module + "/cmd/holdfast", Version: "(devel)"}}, "(devel)"},
		{debug.BuildInfo{Main: debug.Module{Path: module + "er", Version: "v1.0.0"}}, "unknown"},
	} {
		if got := versionIn(&c.info); got != c.want {
			t.Errorf("%s: got %s, want %s", c.info.Main.Path, got, c.want)
		}
	}
	if got := Version(); got == "" || got == "unknown" {
		t.Errorf("got %q in a test of the module itself", got)
	}
}
