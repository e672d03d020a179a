package store

import (
	"bytes"
	"strings"
	"testing"

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
			"lock:\n    ttl: 12s\nredis:\n    dial_timeout: 3s\n    fair_wait: 1m0s\n    password: ${SECRET}\n    user: app\nurl: rediss://h:6380/2\n",
			[]string{"line 10: nameMapper"},
		},
		"a variable in the address": {
			"redisson.yaml", "singleServerConfig:\n  address: redis://${HOST}:6379\n  password: ${SECRET}\n",
			"redis:\n    password: ${SECRET}\nurl: redis://h1:6379\n", nil,
		},
		"sentinels": {
			"redisson.yaml",
			"sentinelServersConfig:\n  sentinelAddresses: [redis://s1:26379, redis://s2:26379]\n  masterName: main\n  password: a$b\n  sentinelPassword: ${SENTINEL}\n",
			"redis:\n    password: a$$b\nurl: redis+sentinel://s1:26379,s2:26379/main?sentinel_password=${SENTINEL}\n",
			[]string{"checkLockSyncedSlaves"},
		},
		"spring": {
			"application.properties", "spring.data.redis.host=h\nspring.data.redis.port=7\nspring.data.redis.password=p\n",
			"redis:\n    password: p\nurl: redis://h:7\n", nil,
		},
		"spring in yaml": {
			"application.yml", "server: {port: 1}\nspring:\n  data:\n    redis: {host: h}\n", "url: redis://h:6379\n", nil,
		},
		"certificates": {
			"redisson.yaml", "singleServerConfig:\n  address: rediss://h:1\nsslTruststore: file:ca.pem\nsslKeystore: file:/pki/own.pem\n",
			"redis:\n    tls:\n        ca: ../ca.pem\n        cert: /pki/own.pem\n        key: /pki/own.pem\nurl: rediss://h:1\n", nil,
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

func TestImportRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"replicatedServersConfig:\n  nodeAddresses: [redis://a:1, redis://b:1]\n": "no URL says that",
		"singleServerConfig:\n  address: redis://${NOWHERE}:1\n":                  "NOWHERE",
		"singleServerConfig: [\n": "no YAML",
	} {
		env := output.Environment{Stderr: &bytes.Buffer{}}
		if _, err := Import(file(t, "redisson.yaml", text), "-", env, output.NewReporter(env, false)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
