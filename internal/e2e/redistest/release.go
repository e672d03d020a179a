package redistest

import (
	"fmt"
)

// Release says which server a server is.
type Release struct {
	Redis  Version // whose commands it has; Valkey names one, for programs that know no Valkey
	Valkey Version // zero for Redis
}

// Version is the version of a program.
type Version struct{ Major, Minor int }

// Since reports whether v is so new.
func (v Version) Since(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Release asks the server which it is. No answer fails the test.
func (a Admin) Release() Release {
	a.helper()
	info := a.String("INFO", "server")
	return Release{Redis: version(infoField(info, "redis_version")), Valkey: version(infoField(info, "valkey_version"))}
}

// version is zero where there is none.
func version(text string) (v Version) {
	_, _ = fmt.Sscanf(text, "%d.%d", &v.Major, &v.Minor)
	return v
}

// Feature is what some servers have and others do not.
type Feature string

// The features.
const (
	ShardedChannels  Feature = "sharded channels, as of Redis 7.0 and Valkey"
	ClusterDatabases Feature = "databases in a cluster, as of Valkey 9"
)

// Has reports whether the server has the feature.
func (a Admin) Has(f Feature) bool {
	a.helper()
	release := a.Release()
	switch f {
	case ShardedChannels:
		return release.Redis.Since(7, 0)
	case ClusterDatabases:
		return release.Valkey.Since(9, 0)
	default:
		a.fail(fmt.Errorf("unknown feature %q", f))
		return false
	}
}

// Needs skips the test unless the server has the feature.
func (a Admin) Needs(f Feature) {
	a.helper()
	if !a.Has(f) {
		a.t.Skipf("the server has no %s", f)
	}
}
