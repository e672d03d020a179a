package redistest

import (
	"fmt"
	"testing"
)

// Release says which servers the tests run on.
type Release struct {
	Redis  Version // whose commands they have: of Valkey, Redis 7.2
	Valkey Version // zero for Redis
}

// Version is the version of a program.
type Version struct{ Major, Minor int }

// Since reports whether v is so new.
func (v Version) Since(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// version is zero where there is none.
func version(text string) (v Version) {
	_, _ = fmt.Sscanf(text, "%d.%d", &v.Major, &v.Minor)
	return v
}

// ReleaseOf asks the servers' program which it is. Where redis-server is missing it
// skips t, as Start does.
func ReleaseOf(t testing.TB) Release {
	t.Helper()
	path, err := program()
	skip(t, err)
	r, err := programRelease(path)
	skip(t, err)
	return r
}

// Feature is what some servers have and others do not.
type Feature string

// ShardedChannels are those of SSUBSCRIBE.
const ShardedChannels Feature = "sharded channels, which came with Redis 7.0"

// Debugging is the setting enable-debug-command: DEBUG needs it where it exists, and
// is always there where it does not. ACL DRYRUN, which says what a user may do without
// doing it, is as old.
const Debugging Feature = "enable-debug-command, which came with Redis 7.0"

// ClusterDatabases are databases other than 0 in a cluster.
const ClusterDatabases Feature = "databases in a cluster, which came with Valkey 9.0"

// Has reports whether the servers have the feature.
func Has(t testing.TB, f Feature) bool {
	t.Helper()
	r := ReleaseOf(t)
	switch f {
	case ShardedChannels, Debugging:
		return r.Redis.Since(7, 0)
	case ClusterDatabases:
		return r.Valkey.Since(9, 0)
	default:
		t.Fatalf("unknown feature %q", f)
		return false
	}
}

// Needs skips t unless the servers have the feature.
func Needs(t testing.TB, f Feature) {
	t.Helper()
	if !Has(t, f) {
		t.Skipf("this server has no %s", f)
	}
}
