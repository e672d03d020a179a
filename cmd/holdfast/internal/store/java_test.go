package store

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// What a file of Java says, the configuration says too. A password that stands elsewhere
// stays there.
func TestImport(t *testing.T) {
	for name, test := range map[string]struct {
		file, text string
		want       string
		said       []string
	}{
		"redisson": {
			"redisson.yaml",
			"singleServerConfig:\n  address: rediss://h:6380\n  database: 2\n  username: app\n  password: ${SECRET}\n  connectTimeout: 3000\n" +
				"lockWatchdogTimeout: 12000\nfairLockWaitTimeout: 60000\nnettyThreads: 3\nnameMapper: !<com.example.Mapper> {}\n",
			"lock.ttl: 12s\nredis.dial_timeout: 3s\nredis.fair_wait: 1m0s\nredis.password: ${SECRET}\nredis.user: app\nurl: rediss://h:6380/2\n",
			[]string{"line 10: nameMapper"},
		},
		"a variable in the address": {
			"redisson.yaml", "singleServerConfig:\n  address: redis://${HOST}:6379\n  password: ${SECRET}\n",
			"redis.password: ${SECRET}\nurl: redis://h1:6379\n", nil,
		},
		"sentinels": {
			"redisson.yaml",
			"sentinelServersConfig:\n  sentinelAddresses: [redis://s1:26379, redis://s2:26379]\n  masterName: main\n  clientName: app\n  password: a$b\n  sentinelPassword: ${SENTINEL}\n",
			"redis.password: a$$b\nurl: redis+sentinel://s1:26379,s2:26379/main?client_name=app&sentinel_password=${SENTINEL}\n",
			[]string{"checkLockSyncedSlaves"},
		},
		"spring": {
			"application.properties", "spring.data.redis.host=h\nspring.data.redis.port=7\nspring.data.redis.password=p\n",
			"redis.password: p\nurl: redis://h:7\n", nil,
		},
		"spring in yaml": {
			"application.yml", "server: {port: 1}\nspring:\n  data:\n    redis: {host: h}\n", "url: redis://h:6379\n", nil,
		},
		"certificates": {
			"redisson.yaml", "singleServerConfig:\n  address: rediss://h:1\nsslTruststore: file:ca.pem\nsslKeystore: file:/pki/own.pem\n",
			"redis.tls.ca: ../ca.pem\nredis.tls.cert: /pki/own.pem\nredis.tls.key: /pki/own.pem\nurl: rediss://h:1\n", nil,
		},
		"what the configuration cannot say": {
			"redisson.yaml", "singleServerConfig:\n  address: rediss://h:1\nsslVerificationMode: NONE\n", "url: rediss://h:1\n", []string{"use --insecure"},
		},
	} {
		path := file(t, test.file, test.text)
		var said bytes.Buffer
		env := output.Environment{Stderr: &said, Environ: []string{"HOST=h1", "SECRET=never"}}
		got, err := Import(path, "sub/holdfast.yaml", env, output.NewReporter(env, false))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", name, err, got, test.want)
		}
		for _, want := range test.said {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: got %q, want %q in it", name, &said, want)
			}
		}
		if len(test.said) == 0 && said.Len() > 0 {
			t.Errorf("%s: got %q, want no word", name, &said)
		}
	}
}

// What a file of Java says counts as if the configuration had it. Several servers, one of
// which is the master, have no URL.
func TestLocateJava(t *testing.T) {
	java := file(t, "redisson.yaml", "replicatedServersConfig:\n  nodeAddresses: [redis://a:1, redis://b:1]\n  username: app\n  password: s3cret\n  clientName: n\nlockWatchdogTimeout: 12000\n")
	name := file(t, "holdfast.yaml", "redisson: "+java+"\nredis: {dial_timeout: 3s}\n")
	var o Connection
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddStoreTo(f)
	ttl := f.Duration("ttl", 0, "")
	o.configName = name
	if err := o.Configure(f, output.Environment{}, output.Silent(), Setting{Flag: "ttl", Key: "lock.ttl"}); err != nil {
		t.Fatal(err)
	}
	l, err := o.Locate(t.Context(), output.Environment{}, output.Silent())
	if err != nil {
		t.Fatal(err)
	}
	a := l.Servers[0]
	if a.URL != "" || len(a.Imported.Nodes) != 2 || a.Username != "app" || a.Password != "s3cret" || a.DialTimeout != 3*time.Second || *ttl != 12*time.Second {
		t.Errorf("got URL %q, nodes %v, user %q, %v, lease %v", a.URL, a.Imported.Nodes, a.Username, a.DialTimeout, *ttl)
	}
	if want := name + ", line 1: redisson"; l.Source != want || o.passwordFrom != want || o.sources["ttl"] != want || o.sources["user"] != want {
		t.Errorf("got sources %q, %q, %v, want %q", l.Source, o.passwordFrom, o.sources, want)
	}
}

func TestImportRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"replicatedServersConfig:\n  nodeAddresses: [redis://a:1, redis://b:1]\n": "a URL cannot express that",
		"singleServerConfig:\n  address: redis://${NOWHERE}:1\n":                  "NOWHERE",

		"singleServerConfig: [\n": "not YAML",
	} {
		env := output.Environment{Stderr: &bytes.Buffer{}}
		if _, err := Import(file(t, "redisson.yaml", text), "-", env, output.NewReporter(env, false)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
