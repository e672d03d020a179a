package importconf_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// lines returns those of a file in testdata.
func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// misspelt reports whether a file has a key that is taken for a mistake. A value
// that is wrong for its key is refused, which only a known key can be.
func misspelt(s *importconf.Settings, err error) bool {
	if err != nil {
		return strings.Contains(err.Error(), "no such key")
	}
	return slices.ContainsFunc(s.Ignored, func(i importconf.Ignored) bool {
		return i.Serious && (strings.Contains(i.Why, "no such key") || strings.Contains(i.Why, "belongs"))
	})
}

// TestEveryKeyOfRedissonIsKnown goes through the setters of the configurations in
// Redisson 3.17.7, 3.45.1, 3.50.0, 4.0.0 and 4.7.0.
func TestEveryKeyOfRedissonIsKnown(t *testing.T) {
	for _, line := range lines(t, "redisson-keys.txt") {
		section, key, _ := strings.Cut(line, " ")
		text := fmt.Sprintf("%s: 1\nsingleServerConfig: {address: 'rediss://h:1'}\n", key)
		if servers := map[string]string{
			"singleServerConfig":       "address: 'rediss://h:1'",
			"sentinelServersConfig":    "masterName: m, sentinelAddresses: ['rediss://h:1']",
			"clusterServersConfig":     "nodeAddresses: ['rediss://h:1']",
			"replicatedServersConfig":  "nodeAddresses: ['rediss://h:1']",
			"masterSlaveServersConfig": "masterAddress: 'rediss://h:1'",
		}[section]; section != "top" {
			if strings.Contains(servers, key+":") {
				continue
			}
			text = fmt.Sprintf("%s: {%s, %s: 1}\n", section, servers, key)
		}
		if misspelt(importconf.Redisson([]byte(text), nil)) {
			t.Errorf("%s of %s is not known", key, section)
		}
	}
}

// TestEveryKeyOfSpringIsKnown goes through the metadata of Spring Boot 2.7.18,
// 3.5.7 and 4.0.0.
func TestEveryKeyOfSpringIsKnown(t *testing.T) {
	for _, key := range lines(t, "spring-keys.txt") {
		if misspelt(importconf.Spring([]byte(key+"=1\n"), "a.properties", nil)) {
			t.Errorf("%s is not known", key)
		}
	}
}

func TestMisspeltKeysAreTold(t *testing.T) {
	for _, text := range []string{"timeOut: 1", "masterName: m", "lockWatchdogTimeout: 1", "nodeAddresses: []"} {
		if !misspelt(importconf.Redisson([]byte("singleServerConfig: {address: 'redis://h:1', "+text+"}"), nil)) {
			t.Errorf("%s in singleServerConfig is not told", text)
		}
	}
	for _, text := range []string{"timeout: 1", "thread: 1", "address: x"} {
		if !misspelt(importconf.Redisson([]byte("singleServerConfig: {address: 'redis://h:1'}\n"+text), nil)) {
			t.Errorf("%s at the top is not told", text)
		}
	}
}

// TestReplicasAreReported: a key for acknowledgements of replicas is a serious ignored key,
// unless it asks for none, as Holdfast does by default.
func TestReplicasAreReported(t *testing.T) {
	for text, want := range map[string]bool{
		"checkLockSyncedSlaves: true":  true,
		"checkLockSyncedSlaves: false": false,
		"slavesSyncTimeout: 2000":      false,
	} {
		s, err := importconf.Redisson([]byte("singleServerConfig: {address: 'redis://h:1'}\n"+text), nil)
		if err != nil || len(s.Ignored) != 1 || s.Ignored[0].Serious != want || !strings.Contains(s.Ignored[0].Why, "Options.Replicas") {
			t.Errorf("%s: got %+v and %v, want it told, serious: %v", text, s, err, want)
		}
	}
}
