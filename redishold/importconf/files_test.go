package importconf_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// environment is that of all tests.
func environment(name string) (string, bool) {
	value, ok := map[string]string{"REDIS_PASSWORD": "s3cret"}[name]
	return value, ok
}

// read reads a file with the function that is for it.
func read(name string, text []byte) (*importconf.Settings, error) {
	if strings.HasPrefix(name, "redisson/") {
		return importconf.Redisson(text, environment)
	}
	return importconf.Spring(text, name, environment)
}

type file struct {
	want    importconf.Settings
	ignored string // keys, in their order; a serious one with !
}

func files() map[string]file {
	single, sentinel := importconf.Single, importconf.Sentinel
	springSentinel := importconf.Settings{
		URL: "redis+sentinel://s1:26379,s2:26379/mymaster/2", Deployment: sentinel, Addrs: []string{"s1:26379", "s2:26379"},
		MasterName: "mymaster", Database: 2, Username: "app", Password: "data-secret",
		SentinelUsername: "watcher", SentinelPassword: "watch-secret",
	}
	springCluster := importconf.Settings{
		URL: "redis+cluster://n1:7000,n2:7001,n3:7002", Deployment: importconf.Cluster,
		Addrs: []string{"n1:7000", "n2:7001", "n3:7002"}, Password: "secret", MaxRedirects: 5,
	}
	return map[string]file{
		"redisson/single.yaml": {
			importconf.Settings{
				URL: "redis://127.0.0.1:6379/2", Deployment: single, Addrs: []string{"127.0.0.1:6379"}, Database: 2,
				Username: "app", Password: "s3cret", ClientName: "orders", DialTimeout: 10 * time.Second, Timeout: 3 * time.Second,
				Pool: importconf.Pool{Size: 64, MinIdle: 24}, TTL: 20 * time.Second, FairWait: 2 * time.Minute,
			},
			"idleConnectionTimeout retryAttempts retryInterval subscriptionsPerConnection subscriptionConnectionMinimumIdleSize " +
				"subscriptionConnectionPoolSize dnsMonitoringInterval !nameMapper threads nettyThreads codec transportMode !checkLockSyncedSlaves",
		},
		"redisson/single-4.yaml": {
			importconf.Settings{
				URL: "rediss://cache.example.com:6380", Deployment: single, Addrs: []string{"cache.example.com:6380"},
				Username: "app", Password: "p: #@%", Pool: importconf.Pool{Size: 8}, TTL: 30 * time.Second,
				TLS: importconf.TLS{Enabled: true, CACert: "/etc/redis/ca.pem", AnyName: true, MinVersion: tls.VersionTLS13},
			},
			"retryDelay sslCiphers nameMapper lazyInitialization",
		},
		"redisson/sentinel.yaml": {
			importconf.Settings{
				URL: "redis+sentinel://10.0.0.1:26379,10.0.0.2:26389/mymaster/1", Deployment: sentinel,
				Addrs: []string{"10.0.0.1:26379", "10.0.0.2:26389"}, MasterName: "mymaster", Database: 1, Password: "data-secret",
				SentinelUsername: "watcher", SentinelPassword: "watch-secret", DialTimeout: 2 * time.Second, Timeout: 3 * time.Second,
				Pool: importconf.Pool{Size: 48, MinIdle: 12},
			},
			"!sentinelServersConfig idleConnectionTimeout retryAttempts retryInterval failedSlaveReconnectionInterval failedSlaveCheckInterval subscriptionsPerConnection " +
				"loadBalancer subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize slaveConnectionMinimumIdleSize " +
				"slaveConnectionPoolSize readMode subscriptionMode checkSentinelsList threads nettyThreads codec transportMode",
		},
		"redisson/cluster.yaml": {
			importconf.Settings{
				URL: "redis+cluster://127.0.0.1:7004,[::1]:7001,[fd00::2]:7000", Deployment: importconf.Cluster,
				Addrs: []string{"127.0.0.1:7004", "[::1]:7001", "[fd00::2]:7000"}, Username: "user", Password: "p/w",
				DialTimeout: 10 * time.Second, Timeout: 3 * time.Second, Pool: importconf.Pool{Size: 64, MinIdle: 24},
			},
			"!clusterServersConfig idleConnectionTimeout retryAttempts retryInterval failedSlaveReconnectionInterval subscriptionsPerConnection loadBalancer " +
				"slaveConnectionMinimumIdleSize slaveConnectionPoolSize readMode subscriptionMode shardedSubscriptionMode scanInterval " +
				"pingConnectionInterval keepAlive tcpNoDelay !natMap threads nettyThreads codec",
		},
		"redisson/replicated.yaml": {
			importconf.Settings{
				Nodes:      []string{"redis://replica-1:2812/3", "redis://replica-2:2815/3", "redis://replica-3:2813/3"},
				Deployment: importconf.Replicated, Addrs: []string{"replica-1:2812", "replica-2:2815", "replica-3:2813"},
				Database: 3, Password: "secret", DialTimeout: 10 * time.Second,
			},
			"!replicatedServersConfig readMode scanInterval threads",
		},
		"redisson/master-slave.yaml": {
			importconf.Settings{URL: "redis://127.0.0.1:6379", Deployment: single, Addrs: []string{"127.0.0.1:6379"}, Timeout: 3 * time.Second},
			"!masterSlaveServersConfig slaveAddresses codec",
		},
		"redisson/old.json": {
			importconf.Settings{URL: "redis://127.0.0.1:6379", Deployment: single, Addrs: []string{"127.0.0.1:6379"}},
			"idleConnectionTimeout pingTimeout reconnectionTimeout failedAttempts sslEnableEndpointIdentification dnsMonitoring codec useLinuxNativeEpoll",
		},
		"spring/boot2.properties": {
			importconf.Settings{
				URL: "rediss://redis.example.com:6380/1", Deployment: single, Addrs: []string{"redis.example.com:6380"}, Database: 1,
				Password: "s3cret", TLS: importconf.TLS{Enabled: true}, Timeout: 6 * time.Second, ClientName: "orders",
				Pool: importconf.Pool{Size: 8, MaxIdle: 7, MinIdle: 1},
			},
			"spring.redis.lettuce.pool.max-wait spring.redis.lettuce.shutdown-timeout",
		},
		"spring/boot2.yaml": {
			importconf.Settings{
				URL: "redis://redis.example.com:6390/4", Deployment: single, Addrs: []string{"redis.example.com:6390"}, Database: 4,
				Username: "app", Password: "p@ss", DialTimeout: 2 * time.Second, Timeout: 3 * time.Second,
				Pool: importconf.Pool{Size: 16, Wait: 1500 * time.Millisecond},
			},
			"spring.redis.host !spring.redis.sentinle.master",
		},
		"spring/sentinel.properties": {springSentinel, "spring.data.redis.host"},
		"spring/sentinel.yaml":       {springSentinel, "!spring.data.redis.password"},
		"spring/cluster.properties":  {springCluster, "spring.data.redis.lettuce.cluster.refresh.adaptive spring.data.redis.lettuce.cluster.refresh.period"},
		"spring/cluster.yaml":        {springCluster, "spring.data.redis.lettuce.cluster.refresh.adaptive spring.data.redis.lettuce.cluster.refresh.period"},
		"spring/masterreplica.yaml":  {importconf.Settings{Nodes: []string{"redis://a:6379", "redis://b:6379"}, Deployment: importconf.Replicated, Addrs: []string{"a:6379", "b:6379"}}, ""},
		"spring/tls.yaml": {
			importconf.Settings{
				URL: "rediss://cache.example.com:6380", Deployment: single, Addrs: []string{"cache.example.com:6380"},
				TLS: importconf.TLS{Enabled: true},
			},
			"!spring.data.redis.ssl.bundle",
		},
	}
}

func TestFiles(t *testing.T) {
	for name, want := range files() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			s, err := read(name, text)
			if err != nil {
				t.Fatal(err)
			}
			ignored := s.Ignored
			s.Ignored = nil
			if !reflect.DeepEqual(*s, want.want) {
				type bare importconf.Settings // without String
				t.Errorf("got\n%+v, want\n%+v", bare(*s), bare(want.want))
			}
			checkIgnored(t, text, ignored, want.ignored)
		})
	}
}

// checkIgnored compares the keys, and looks them up in the lines of the file.
func checkIgnored(t *testing.T, text []byte, ignored []importconf.Ignored, want string) {
	t.Helper()
	lines := strings.Split(string(text), "\n")
	var keys []string
	for _, i := range ignored {
		mark := ""
		if i.Serious {
			mark = "!"
		}
		key := i.Key
		for _, section := range []string{"singleServerConfig.", "sentinelServersConfig.", "clusterServersConfig.", "replicatedServersConfig.", "masterSlaveServersConfig."} {
			key = strings.TrimPrefix(key, section)
		}
		keys = append(keys, mark+key)
		last := key[strings.LastIndexAny(key, ". ")+1:]
		if i.Line < 1 || i.Line > len(lines) || !strings.Contains(lines[i.Line-1], last) || i.Why == "" {
			t.Errorf("%v: that key is not in that line, or there is no reason", i)
		}
	}
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("got ignored\n%s, want\n%s", got, want)
	}
}

func TestEveryFileIsRead(t *testing.T) {
	found, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	known := files()
	found = slices.DeleteFunc(found, func(name string) bool {
		rest := filepath.ToSlash(strings.TrimPrefix(name, "testdata"+string(filepath.Separator)))
		_, ok := known[rest]
		return ok || strings.HasPrefix(rest, "fuzz/") || strings.HasPrefix(rest, "public/")
	})
	if len(found) > 0 {
		t.Fatalf("no test reads %q", found)
	}
}
