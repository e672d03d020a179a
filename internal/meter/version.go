package meter

import (
	"runtime/debug"
	"strings"
)

// Version returns the version of Holdfast in this program, as Go recorded it, or
// "unknown".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return versionIn(info)
}

const unknown = "unknown"

func versionIn(info *debug.BuildInfo) string {
	const module = "github.com/holdfast-go/holdfast"
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	if info.Main.Path == module || strings.HasPrefix(info.Main.Path, module+"/") {
		return info.Main.Version
	}
	return unknown
}
