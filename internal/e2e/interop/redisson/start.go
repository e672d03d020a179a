package redisson

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/e2e/interop/peer"
	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
)

// The versions, which .ci/interop builds. Their differences are listed in
// docs/redisson.md.
const (
	Classic = "3.17.7" // knows no sharded channels, no latch keys and no fenced lock
	Probing = "3.25.0" // looks for sharded channels with a probe that may err
	Middle  = "3.45.1" // latch keys, "shardedSubscriptionMode", renewals in batches
	Newest  = "4.7.0"  // "fairLockWaitTimeout", non-reentrant locks
)

// Versions are those on which every case runs, the oldest first.
func Versions() []string { return []string{Classic, Middle, Newest} }

// Settings are those of a client of Redisson. Times are in milliseconds; what is 0
// or "" is Redisson's own default.
type Settings struct {
	Mode                    string   `json:"mode"` // single, replicated, sentinel, cluster
	Addresses               []string `json:"addresses"`
	Master                  string   `json:"master,omitempty"`
	LockWatchdogTimeout     int64    `json:"lockWatchdogTimeout,omitempty"`     // 30,000
	FairLockWaitTimeout     int64    `json:"fairLockWaitTimeout,omitempty"`     // 300,000; from 3.46 on
	ShardedSubscriptionMode string   `json:"shardedSubscriptionMode,omitempty"` // AUTO, ON, OFF; from 3.29 on
	Prefix                  string   `json:"prefix,omitempty"`                  // of a NameMapper
	CheckLockSyncedSlaves   *bool    `json:"checkLockSyncedSlaves,omitempty"`
	Timeout                 int64    `json:"timeout,omitempty"`       // 3,000
	RetryAttempts           int64    `json:"retryAttempts,omitempty"` // 3 or 4
}

// On returns the settings of a client of d, with Redisson's defaults.
func On(d *redistest.Deployment) Settings {
	modes := map[redistest.Topology]string{
		redistest.Standalone: "single", redistest.Replicated: "replicated",
		redistest.Sentinel: "sentinel", redistest.Cluster: "cluster",
	}
	s := Settings{Mode: modes[d.Topology()], Addresses: urls(d.Seeds())}
	if d.Topology() == redistest.Sentinel {
		s.Master = redistest.MasterName
	}
	return s
}

// At returns the settings of a client of one server, or of a proxy before it.
func At(addr string) Settings {
	return Settings{Mode: "single", Addresses: urls([]string{addr})}
}

func urls(addrs []string) []string {
	var all []string
	for _, addr := range addrs {
		all = append(all, "redis://"+addr)
	}
	return all
}

// Start starts a JVM with a client of that version. It ends with t, and what it
// holds stays held. Where the version has not been built, t fails under CI and is
// skipped elsewhere.
func Start(t testing.TB, version string, s Settings) *peer.Process {
	t.Helper()
	folder := filepath.Join(peer.Folder(t), "java", version)
	if _, err := os.Stat(filepath.Join(folder, "peer.jar")); err != nil {
		missing(t, fmt.Sprintf("Redisson %s is not there: run `make interop` once, which needs a JDK 17 and Maven", version))
	}
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return peer.Start(t, exec.Command("java", options(folder, string(settings))...))
}

// options keep a JVM small: a machine of two cores runs several.
func options(folder, settings string) []string {
	return []string{
		"-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx192m",
		"--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
		"-cp", filepath.Join(folder, "peer.jar") + string(os.PathListSeparator) + filepath.Join(folder, "lib", "*"),
		"holdfast.peer.Main", settings,
	}
}

func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
