package javaconf

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/e2e/redistest"
	"github.com/holdfast-go/holdfast/redishold/importconf"
)

// The passwords have what URLs and YAML take for something else.
const (
	password         = "p@ss:w/rd #1"
	sentinelPassword = "s%ss"
)

// file is a configuration, and its name.
type file struct{ name, text string }

func (f file) read() (*importconf.Settings, error) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"REDIS_PASSWORD": password, "SENTINEL_PASSWORD": sentinelPassword}[name]
		return value, ok
	}
	if strings.HasPrefix(f.name, "redisson") {
		return importconf.Redisson([]byte(f.text), env)
	}
	return importconf.Spring([]byte(f.text), f.name, env)
}

// list writes addresses as a YAML list of Redisson.
func list(scheme string, addrs []string) string {
	return "[\"" + scheme + strings.Join(addrs, "\", \""+scheme) + "\"]"
}

// files are configurations of a deployment in every form.
func files(d *redistest.Deployment) []file {
	seeds := d.Seeds()
	host, port, _ := strings.Cut(seeds[0], ":")
	nodes := strings.Join(seeds, ",")
	switch d.Topology() {
	case redistest.Sentinel:
		return []file{
			{"redisson.yaml", fmt.Sprintf("sentinelServersConfig:\n  sentinelAddresses: %s\n  masterName: %s\n  password: \"${REDIS_PASSWORD}\"\n"+
				"  sentinelPassword: \"${SENTINEL_PASSWORD}\"\n  checkSentinelsList: false\nlockWatchdogTimeout: 7000\n", list("redis://", seeds), redistest.MasterName)},
			{"application.properties", fmt.Sprintf("spring.redis.sentinel.nodes=%s\nspring.redis.sentinel.master=%s\nspring.redis.password=${REDIS_PASSWORD}\n"+
				"spring.redis.sentinel.password=${SENTINEL_PASSWORD}\n", nodes, redistest.MasterName)},
			{"application.yaml", fmt.Sprintf("spring:\n  data:\n    redis:\n      sentinel:\n        nodes: [\"%s\"]\n        master: %s\n        password: ${SENTINEL_PASSWORD}\n"+
				"      password: ${REDIS_PASSWORD}\n", strings.Join(seeds, "\", \""), redistest.MasterName)},
		}
	case redistest.Cluster:
		return []file{
			{"redisson.yaml", fmt.Sprintf("clusterServersConfig:\n  nodeAddresses: %s\n  password: '${REDIS_PASSWORD}'\n  masterConnectionPoolSize: 4\n", list("redis://", seeds))},
			{"application.properties", fmt.Sprintf("spring.data.redis.cluster.nodes=%s\nspring.data.redis.password=${REDIS_PASSWORD}\nspring.data.redis.lettuce.pool.max-active=4\n", nodes)},
			{"application.yaml", fmt.Sprintf("spring.redis:\n  cluster:\n    nodes: %s\n    max-redirects: 5\n  password: \"%s\"\n", nodes, password)},
		}
	case redistest.Replicated:
		var all []string // replicas first: the master has to be looked for
		for _, s := range d.Servers() {
			all = append([]string{s.Addr()}, all...)
		}
		return []file{
			{"redisson.yaml", fmt.Sprintf("replicatedServersConfig:\n  nodeAddresses: %s\n  password: \"${REDIS_PASSWORD}\"\n", list("redis://", all))},
			{"redisson-master-slave.yaml", fmt.Sprintf("masterSlaveServersConfig:\n  masterAddress: \"redis://%s\"\n  slaveAddresses: %s\n  password: \"${REDIS_PASSWORD}\"\n",
				d.Master("").Addr(), list("redis://", all[:2]))},
			{"application.properties", fmt.Sprintf("spring.data.redis.masterreplica.nodes=%s\nspring.data.redis.password=${REDIS_PASSWORD}\n", strings.Join(all, ","))},
		}
	default:
		return []file{
			{"redisson.yaml", fmt.Sprintf("singleServerConfig:\n  address: \"redis://%s\"\n  username: app\n  password: \"${REDIS_PASSWORD}\"\n  database: 3\n"+
				"  clientName: orders\n  connectTimeout: 2000\n  timeout: 1000\n  connectionPoolSize: 3\n  connectionMinimumIdleSize: 1\nfairLockWaitTimeout: 5000\n", seeds[0])},
			{"redisson-4.yaml", fmt.Sprintf("singleServerConfig:\n  address: [\"redis://%s\"]\nusername: default\npassword: \"${REDIS_PASSWORD}\"\n", seeds[0])},
			{"application.properties", fmt.Sprintf("spring.redis.host=%s\nspring.redis.port=%s\nspring.redis.username=app\nspring.redis.password=${REDIS_PASSWORD}\nspring.redis.database=3\n"+
				"spring.redis.timeout=2s\nspring.redis.jedis.pool.max-active=2\nspring.redis.jedis.pool.max-wait=500ms\n", host, port)},
			{"application.yaml", fmt.Sprintf("spring:\n  data:\n    redis:\n      url: redis://app:p%%40ss:w%%2Frd%%20%%231@%s/3\n      database: 3\n      connectTimeout: PT2S\n", seeds[0])},
		}
	}
}

func TestEveryDeployment(t *testing.T) {
	for _, top := range redistest.Topologies() {
		t.Run(string(top), func(t *testing.T) {
			d := redistest.StartDeployment(t, top, redistest.Password(password), redistest.SentinelPassword(sentinelPassword))
			if top == redistest.Standalone {
				d.Servers()[0].Do("ACL", "SETUSER", "app", "on", ">"+password, "~*", "&*", "+@all")
			}
			for _, f := range files(d) {
				t.Run(f.name, func(t *testing.T) { lockWith(t, d.Bind(t), f) })
			}
		})
	}
}

// lockWith takes and releases a lock as f says.
func lockWith(t *testing.T, d *redistest.Deployment, f file) {
	s, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	lockBy(t, d, s)
}

// lockBy takes and releases a lock in every way, and looks for it on the server.
func lockBy(t *testing.T, d *redistest.Deployment, s *importconf.Settings) {
	for name, open := range ways() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			conn, shut, err := open(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			defer shut()
			key := "conf:" + name
			lock, err := newLocker(conn, s).Lock(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			checkHeld(t, d, s, key)
			if err := lock.Unlock(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// checkHeld wants the lock on the master, in the database of the file and with its
// TTL.
func checkHeld(t *testing.T, d *redistest.Deployment, s *importconf.Settings, key string) {
	t.Helper()
	master := d.Bind(t).Master(key)
	left, _ := master.Do("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('PTTL', KEYS[1])", "1", key, fmt.Sprint(s.Database)).(int64)
	want := s.TTL
	if want == 0 {
		want = 30 * time.Second // the default
	}
	if got := time.Duration(left) * time.Millisecond; got > want || got < want-5*time.Second {
		t.Errorf("the lock has a TTL of %v in database %d, want about %v", got, s.Database, want)
	}
}
