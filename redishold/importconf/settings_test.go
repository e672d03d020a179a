package importconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redishold/importconf"
)

func TestNoPasswordIsPrinted(t *testing.T) {
	s, err := importconf.Redisson([]byte("sentinelServersConfig:\n  sentinelAddresses: [redis://h:1]\n  masterName: m\n  username: app\n"+
		"  password: hunter2\n  sentinelPassword: hunter2too\n  thread: 3\nlockWatchdogTimeout: 10000\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Password != secret || s.SentinelPassword != secret+"too" {
		t.Fatal("the passwords are not there")
	}
	var logged bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&logged, nil))
	logger.Info("x", "pointer", s, "value", *s)
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s), fmt.Sprintf("%v %+v %#v %s", *s, *s, *s, *s), logged.String(), string(encoded), fmt.Sprint(s.Ignored)} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows a password", text)
		}
	}
	const want = `redis+sentinel://h:1/m, user "app", TTL 10s, keys ignored: 2`
	if s.String() != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if got := logged.String(); strings.Count(got, `/m, user \"app\", TTL 10s`) != 2 {
		t.Errorf("got %s, want what is known of the user, twice", got)
	}
}

func TestRedissonPlaceholders(t *testing.T) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"SET": "one", "EMPTY": "", "a.b": "two", "QUOTED": "p#w: {x}"}[name]
		return value, ok
	}
	for text, want := range map[string]string{
		"${SET}":                     "one",
		"${SET:-other}":              "one",
		"${NOT:-other}":              "other",
		"x${SET}y${a.b}":             "xoneytwo",
		"\"${QUOTED}\"":              "p#w: {x}",
		"'${NOT:-x}' # ${COMMENTED}": "x",
		"${EMPTY}":                   "",
		"$SET":                       "$SET",
	} {
		s, err := importconf.Redisson([]byte("singleServerConfig:\n  address: redis://h:1\n  password: "+text+"\n"), env)
		if err != nil || s.Password != want {
			t.Errorf("%s: got %v, want password %q", text, err, want)
		}
	}
}

func TestSpringPlaceholders(t *testing.T) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"SET": "one", "REDIS_AUTHTOKEN": "two", "my.prop": "three"}[name]
		return value, ok
	}
	for text, want := range map[string]string{
		"${SET}":                      "one",
		"${NOT:other}":                "other",
		"${NOT:}":                     "",
		"${NOT:a:b}":                  "a:b",
		"${redis.auth-token}":         "two",
		"${my.prop}":                  "three",
		"${app.secretWord}":           "four",
		"${app.secret-word}":          "four",
		"$SET":                        "$SET",
		"\\u0068\\\n    unter\\=2\\:": "hunter=2:",
	} {
		file := "app.secret-word=four\nspring.data.redis.password=" + text + "\n"
		s, err := importconf.Spring([]byte(file), "application.properties", env)
		if err != nil || s.Password != want {
			t.Errorf("%s: got %v, want password %q", text, err, want)
		}
	}
}

func TestSpringTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"6000": 6 * time.Second, "6000ms": 6 * time.Second, "2s": 2 * time.Second, "1M": time.Minute, "1h": time.Hour,
		"500us": 500 * time.Microsecond, "PT2S": 2 * time.Second, "pt1m2.5s": 62500 * time.Millisecond,
		"0": 0, "-1ms": 0, "-1": 0, "PT0S": 0,
	} {
		s, err := importconf.Spring([]byte("spring.redis.timeout: "+text+"\n"), "application.yaml", nil)
		if err != nil || s.Timeout != want {
			t.Errorf("%s: got %v, want %v", text, err, want)
			continue
		}
		if told := len(s.Ignored) == 1; told != (want == 0) {
			t.Errorf("%s: got ignored %v", text, s.Ignored)
		}
	}
	for _, text := range []string{"2w", "s", "1.5s", "P", "PT", "P1Y", "999999999999999999", "1d", "P1DT1H", "PT1us"} {
		if s, err := importconf.Spring([]byte("spring.redis.timeout: "+text+"\n"), "application.yaml", nil); err == nil {
			t.Errorf("%s: got %v, want an error", text, s.Timeout)
		}
	}
}

// TestPoolThatIsOff: the size of the pool is used, and the key that switches it off is listed.
func TestPoolThatIsOff(t *testing.T) {
	for enabled, serious := range map[string]bool{"true": false, "false": true} {
		s, err := importconf.Spring([]byte("spring.redis.jedis.pool.max-active=3\nspring.redis.jedis.pool.enabled="+enabled+"\n"), "a.properties", nil)
		if err != nil || s.Pool.Size != 3 || len(s.Ignored) != 1 || s.Ignored[0].Serious != serious {
			t.Errorf("%s: got %+v and %v, want the size 3 and a key ignored, serious: %v", enabled, s, err, serious)
		}
	}
}

// TestFurtherDocuments: only the first one is read, and what others say of Redis is
// listed.
func TestFurtherDocuments(t *testing.T) {
	for name, text := range map[string]string{
		"a.properties": "spring.redis.host=h\n#---\nserver.port=1\nspring.redis.password=hunter2\n",
		"a.yaml":       "spring.redis.host: h\n---\nspring.profiles: prod\nspring.redis.password: {hunter2}\n",
	} {
		s, err := importconf.Spring([]byte(text), name, nil)
		if err != nil || s.URL != "redis://h:6379" || s.Password != "" || len(s.Ignored) != 1 {
			t.Fatalf("%s: got %v and %v, want the host of the first document and one key ignored", name, s, err)
		}
		if got := s.Ignored[0]; got.Key != "spring.redis.password" || got.Line != 4 || !got.Serious {
			t.Errorf("%s: got %v, want the password in line 4", name, got)
		}
	}
}

// TestURLs looks at addresses that the files in testdata do not have.
func TestURLs(t *testing.T) {
	for text, want := range map[string]string{
		"singleServerConfig: {address: 'redis+uds:///run/redis.sock', database: 1}":                  "unix:///run/redis.sock?db=1",
		"singleServerConfig: {address: 'valkeys://h:1'}":                                             "rediss://h:1",
		"singleServerConfig: {address: 'redis://h:1/'}":                                              "redis://h:1",
		"singleServerConfig: {addresses: ['valkey://h:1']}":                                          "redis://h:1",
		"replicatedServersConfig: {nodeAddresses: ['redis://h:1']}":                                  "redis://h:1",
		"clusterServersConfig: {nodeAddresses: ['rediss://h:1', 'rediss://i:2']}":                    "rediss+cluster://h:1,i:2",
		"clusterServersConfig: {address: 'redis://h:1,redis://i:2'}":                                 "redis+cluster://h:1,i:2",
		"sentinelServersConfig: {sentinelAddresses: 'redis://h:1', masterName: 7}":                   "redis+sentinel://h:1/?master=7",
		"sentinelServersConfig: {sentinelAddresses: 'rediss://h:1', masterName: 'a/b', database: 2}": "rediss+sentinel://h:1/2?master=a%2Fb",
	} {
		s, err := importconf.Redisson([]byte(text), nil)
		if err != nil || s.URL != want {
			t.Errorf("%s: got %v, %v, want %s", text, s, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                     "redis://localhost:6379",
		"spring.redis.host=::1":                "redis://[::1]:6379",
		"spring.redis.url=":                    "redis://localhost:6379",
		"spring.redis.url=rediss://:x@[::1]:2": "rediss://[::1]:2",
		"spring.redis.url=redis://h:1/2\nspring.redis.ssl=true\nspring.redis.database=2": "rediss://h:1/2",
		"spring.redis.url=redis://h:1/\nspring.redis.database=0":                         "redis://h:1",
		"spring.data.redis.host=new\nspring.redis.host=old":                              "redis://new:6379",
		"spring.redis.cluster.nodes=[::1]:1,h:2":                                         "redis+cluster://[::1]:1,h:2",
		"spring.data.redis.host=h\nspring.data.redis.ssl.bundle=":                        "rediss://h:6379",
		"spring.redis.cluster.nodes=g:1,h:2\nspring.redis.ssl=true":                      "rediss+cluster://g:1,h:2",
	} {
		s, err := importconf.Spring([]byte("spring.redis.clientName=x\n"+text), "a.properties", nil)
		if err != nil || s.URL != want {
			t.Errorf("%s: got %v, %v, want %s", text, s, err, want)
		}
	}
}

// Redisson selects the database of a cluster, where the servers have it. Spring does
// not, and its programs must be met where they are.
func TestDatabaseOfACluster(t *testing.T) {
	s, err := importconf.Redisson([]byte("checkLockSyncedSlaves: false\nclusterServersConfig: {nodeAddresses: ['redis://a:1', 'redis://b:1'], database: 3}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != "redis+cluster://a:1,b:1/3" || s.Database != 3 || len(s.Ignored) != 1 {
		t.Errorf("Redisson: got %s, database %d, ignored %v", s.URL, s.Database, s.Ignored)
	}
	s, err = importconf.Spring([]byte("spring.redis.cluster.nodes=a:1,b:1\nspring.redis.database=3\n"), "a.properties", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != "redis+cluster://a:1,b:1" || s.Database != 0 || len(s.Ignored) != 1 || s.Ignored[0].Key != "spring.redis.database" || s.Ignored[0].Line != 2 {
		t.Errorf("Spring: got %s, database %d, ignored %v", s.URL, s.Database, s.Ignored)
	}
}

// TestSentinelCredentialsInAddresses: they are those of the Sentinels, as with
// Redisson.
func TestSentinelCredentialsInAddresses(t *testing.T) {
	s, err := importconf.Redisson([]byte("sentinelServersConfig: {sentinelAddresses: ['redis://w:x@h:1'], masterName: m, password: y}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.SentinelUsername != "w" || s.SentinelPassword != "x" || s.Username != "" || s.Password != "y" {
		t.Fatalf("got %s:%s for the Sentinels and %s:%s for the data", s.SentinelUsername, s.SentinelPassword, s.Username, s.Password)
	}
}

// TestNearerKeyCounts: a key in a section has priority over one at the top of the file.
func TestNearerKeyCounts(t *testing.T) {
	s, err := importconf.Redisson([]byte("password: far\nsingleServerConfig: {address: 'redis://h:1', password: near}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Password != "near" || len(s.Ignored) != 1 || s.Ignored[0].Key != "password" || s.Ignored[0].Line != 1 {
		t.Fatalf("got password %s and ignored %v, want near and the other one", s.Password, s.Ignored)
	}
}

func TestUserAndPasswordFromTwoPlaces(t *testing.T) {
	s, err := importconf.Redisson([]byte("singleServerConfig: {address: 'redis://:hunter2@h:1', username: app}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Username != "app" || s.Password != secret {
		t.Fatalf("got %s:%s, want the user of the key and the password of the address", s.Username, s.Password)
	}
}

func TestBackslashAtTheEndOfALine(t *testing.T) {
	s, err := importconf.Spring([]byte("spring.redis.password=a\\\\\nspring.redis.host=h\r\n\r\n#c\\\rspring.redis.client-name=b\\\r\n  c\r\n"), "a.properties", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Password != `a\` || s.Addrs[0] != "h:6379" || s.ClientName != "bc" {
		t.Fatalf("got password %s, address %s, client name %s", s.Password, s.Addrs[0], s.ClientName)
	}
}
