package importconf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// publicFiles has the files of public projects below testdata/public: the URL that is
// read, and what is serious; or the error, with the line, the key and the remedy.
func publicFiles() map[string][]string {
	const unsynced = "checkLockSyncedSlaves is missing, so Redisson needs acknowledgements of replicas for each lock: set redishold.Options.Replicas"
	const local = "redis://127.0.0.1:6379"
	return map[string][]string{
		"redisson/4x.yaml":                      {local, "line 4: checkLockSyncedSlaves"},
		"redisson/all-commented.yaml":           {"only comments: write one of singleServerConfig"},
		"redisson/class-codec.json":             {"redis://redis.example.com:6379/6"},
		"redisson/cluster-flow.yaml":            {"redis+cluster://10.0.0.1:6379,10.0.0.2:6379", "line 1: clusterServersConfig: " + unsynced},
		"redisson/cluster-full.yaml":            {"redis+cluster://127.0.0.1:7004,127.0.0.1:7001,127.0.0.1:7000", "line 1: clusterServersConfig: " + unsynced},
		"redisson/cluster-min.yaml":             {"redis+cluster://localhost:6379,localhost:6380,localhost:6381", "line 1: clusterServersConfig: " + unsynced},
		"redisson/cluster-monitorip.yaml":       {"redis+cluster://redishost1:2812,redishost2:2815", "line 1: clusterServersConfig: " + unsynced},
		"redisson/codec-no-braces.yaml":         {local},
		"redisson/codec-string.yml":             {local},
		"redisson/db5-ping.yaml":                {local + "/5"},
		"redisson/heredoc.yaml":                 {"line 2: singleServerConfig.address: a $ without braces is not a placeholder, not even for Redisson: write ${NAME}"},
		"redisson/jks.yaml":                     {"line 2: clusterServersConfig.password: the placeholder REDIS_PASSWORD is not set and has no default: set it in the environment"},
		"redisson/masterslave-short.yaml":       {"redis://10.0.0.1:15389", "line 1: masterSlaveServersConfig: " + unsynced},
		"redisson/masterslave.yaml":             {"not YAML at or near line 28: check the indentation, put a space after each colon"},
		"redisson/min.json":                     {"redis://10.0.0.1:6379"},
		"redisson/noscheme.yaml":                {"line 2: singleServerConfig.address: an address begins with redis://"},
		"redisson/old-single.yml":               {local},
		"redisson/one-space.yml":                {"redis://localhost:6379"},
		"redisson/password-codec.yaml":          {"redis://redis:6379"},
		"redisson/placeholders.yml":             {local},
		"redisson/replicated.yaml":              {"rediss://node-001.example.com:6379 or rediss://node-002.example.com:6379", "line 1: replicatedServersConfig: " + unsynced},
		"redisson/sentinel-check.yaml":          {"redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster", "line 1: sentinelServersConfig: " + unsynced},
		"redisson/sentinel-full.yml":            {"redis+sentinel://127.0.0.1:26379,127.0.0.1:26389/mymaster/6", "line 2: sentinelServersConfig: " + unsynced},
		"redisson/sentinel-ssl.yml":             {"redis+sentinel://10.0.0.1:26391,10.0.0.2:26392,10.0.0.3:26393/mymaster/7", "line 1: sentinelServersConfig: " + unsynced},
		"redisson/single-commented.yaml":        {"redis://cache:6379"},
		"redisson/single-pool.yml":              {"redis://10.0.0.1:6379"},
		"redisson/threads-in-section.yaml":      {"redis://localhost:6379", "line 5: singleServerConfig.threads", "line 6: singleServerConfig.nettyThreads"},
		"redisson/truststore-placeholder.yaml":  {"line 4: singleServerConfig.sslTruststore: the placeholder WEBSPHERE_TRUSTSTORE_PATH is not set"},
		"redisson/two-sections-null.yaml":       {local},
		"redisson/unquoted-number-password.yml": {"redis://10.0.0.1:6379/6"},
		"redisson/watchdog.yml":                 {local},

		"spring/all-empty.properties":       {"line 7: spring.redis.cluster.nodes: no address is given: write host:port, or remove the key"},
		"spring/basic.properties":           {local},
		"spring/boot1-pool.properties":      {"redis://10.0.0.1:6379"},
		"spring/cluster.properties":         {"redis+cluster://redis-node1:6379,redis-node2:6379,redis-node3:6379"},
		"spring/empty-yaml.yml":             {"line 10: spring.redis.cluster.nodes: no address is given: write host:port, or remove the key"},
		"spring/everything.properties":      {"line 12: spring.redis.cluster.nodes: line 11 has spring.redis.sentinel.nodes already; keep one of them"},
		"spring/file-ref.yml":               {"line 11: spring.redis.redisson.file: Redisson uses the connection settings of this key: if the key names a file, import that file as a file of Redisson"},
		"spring/fullwidth-colon.properties": {"line 1: spring.redis.cluster.nodes: the address has a full-width character, as a Chinese keyboard writes it: use the ASCII characters for digits, : and ,"},
		"spring/inline-redisson.yml":        {"line 4: spring.redis.redisson.config: Redisson uses the connection settings of this key: if the key names a file, import that file as a file of Redisson; if the key has the settings, save them in a file, and import that file"},
		"spring/profiles.yml":               {"redis://localhost:6379", "line 3: spring.profiles.active: holdfast does not read the files of profiles", "line 16: spring.data.redis.host"},
		"spring/redisson-config-in-app.yml": {"redis://localhost:6379", "line 7: redisson.config: a program with Redisson may use the connection settings of this key, and not those of the other keys: if the key names a file"},
		"spring/redisson-key.yml":           {local, "line 8: redisson.singleServerConfig.address: a program with Redisson may use the connection settings of this key"},
		"spring/sentinel-k8s.yml":           {"redis+sentinel://my-redis-ha-node-0.my-redis-ha-headless.redis.svc.cluster.local:26379,my-redis-ha-node-1.my-redis-ha-headless.redis.svc.cluster.local:26379/mymaster"},
		"spring/sentinel-noport.yml":        {"line 9: spring.redis.sentinel.nodes: the address has no port: write host:port"},
		"spring/sentinel.properties":        {"redis+sentinel://10.0.0.1:26379/mymaster"},
		"spring/ssl-env.yml":                {"line 6: spring.data.redis.password: the placeholder REDIS_PASSWORD is not set"},
	}
}

func TestPublicFiles(t *testing.T) {
	want := publicFiles()
	found, err := filepath.Glob("testdata/public/*/*")
	if err != nil || len(found) != len(want) {
		t.Fatalf("got %d files and error %v, want %d", len(found), err, len(want))
	}
	for _, path := range found {
		name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Join("testdata", "public")+string(filepath.Separator)))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			read := importconf.Redisson
			if strings.HasPrefix(name, "spring/") {
				read = func(text []byte, env func(string) (string, bool)) (*importconf.Settings, error) {
					return importconf.Spring(text, name, env)
				}
			}
			s, err := read(text, nil)
			check(t, want[name], s, err)
		})
	}
}

func check(t *testing.T, want []string, s *importconf.Settings, err error) {
	t.Helper()
	if err != nil {
		if len(want) != 1 || !strings.Contains(err.Error(), want[0]) {
			t.Errorf("got error %q, want %q", err, want)
		}
		return
	}
	got := []string{strings.Join(append(s.Nodes, s.URL), " or ")}
	for _, i := range s.Ignored {
		if i.Serious {
			got = append(got, i.String())
		}
	}
	if got[0] = strings.TrimSuffix(got[0], " or "); got[0] != want[0] || len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
