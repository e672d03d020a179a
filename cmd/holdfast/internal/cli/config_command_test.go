//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Each value comes with its source, and no password is shown.
func TestConfigCheck(t *testing.T) {
	file := configure(t, "holdfast.yaml", "url: redis://app:s3cret@h:1/2\nredis: {replicas: 2, tls: {server_name: n}, shared_tokens: true}\n"+
		"lock: {wait: 9s, margin: 1s}\nserve: {operators: [ada, grace]}\netcd: {user: e}\n")
	for name, test := range map[string]struct {
		environ, args []string
		want          []string
		not           string
		said          []string
	}{
		"a file": {
			bare("HOLDFAST_CONFIG="+file, "HOLDFAST_TTL=12s"), nil,
			[]string{
				"configuration " + file, "store redis://app@h:1/2 " + file + ", line 1: url", "password (hidden) the URL", "prefix - default", "sni n " + file + ", line 2: redis.tls.server_name",
				"layout redisson default", "replicas 2 " + file + ", line 2: redis.replicas", "ttl 12s HOLDFAST_TTL", "wait 9s " + file + ", line 3: lock.wait",
				"kill-after 4s default", "lock.margin 1s " + file + ", line 3: lock.margin", "redis.shared_tokens true " + file, "serve.operators ada, grace " + file,
			},
			"etcd", nil,
		},
		"no file": {
			bare("REDISCLI_AUTH=s3cret"),
			[]string{"-u", "redis://h", "--user", "app", "--layout", "plain"},
			[]string{"configuration none", "store redis://h --url", "user app --user", "password (hidden) REDISCLI_AUTH", "layout plain --layout"},
			"etcd", nil,
		},
		"a configuration of another store": {
			bare("HOLDFAST_CONFIG="+file, "HOLDFAST_URL=etcd://a,b"), nil, []string{"store etcd://a,b HOLDFAST_URL", "wait 9s " + file}, "redis.", nil,
		},
		"several servers": {
			bare(), strings.Fields("-u redis://:s3cret@a -u redis://b -u redis://c"),
			[]string{"store redis://b --url", "store redis://c --url"},
			"etcd",
			[]string{"can read the password in --url"},
		},
	} {
		got := call(t, test.environ, append([]string{"config", "check"}, test.args...)...)
		got.want(t, 0, test.said...)
		text := strings.Join(strings.Fields(got.stdout), " ")
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got.stdout)
			}
		}
		if strings.Contains(got.stdout+got.stderr, "s3cret") || strings.Contains(text, test.not) {
			t.Errorf("%s: got a password, or %q: %s", name, test.not, got.stdout)
		}
	}
	got := call(t, bare("HOLDFAST_CONFIG="+file), "config", "check", "--json")
	if first := objects(t, got)[1]; first["name"] != "store" || first["source"] != file+", line 1: url" {
		t.Errorf("got %v, want the store", first)
	}
	for text, want := range map[string]string{
		"url: redis://h\nlock: {ttl: 3s, kill_after: 2s}\n": "--kill-after 2s is too long",
		"url: zoo://h\n":   "line 1: url",
		"lok: {ttl: 3s}\n": `unknown key "lok"`,
		"":                 "no store is named",
	} {
		call(t, bare("HOLDFAST_CONFIG="+configure(t, "holdfast.yaml", text)), "config", "check").want(t, output.ExitUsage, want)
	}
}

// A program uses what import has written. It replaces no file.
func TestConfigImport(t *testing.T) {
	s := newSite(t)
	s.server.RequireAuth("s3cret")
	file := configure(t, "redisson.yaml", "singleServerConfig:\n  address: redis://"+s.server.Addr()+"\n  password: ${SECRET}\nlockWatchdogTimeout: 12000\n")
	to := filepath.Join(t.TempDir(), "holdfast.yaml")
	call(t, bare(), "config", "import", file, "--to", to).want(t, 0, "wrote "+to)
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file of its user", info, err)
	}
	got := call(t, bare("SECRET=s3cret", "HOLDFAST_CONFIG="+to), "run", "job", "--", "sh", "-c", "echo $HOLDFAST_LEASE_MS")
	if got.code != 0 || got.stdout != "12000\n" {
		t.Errorf("got %+v, want the lease of the watchdog", got)
	}
	call(t, bare(), "config", "import", file, "--to", to).want(t, output.ExitFailure, "holdfast: "+to+" exists: remove it, or name another file with --to")
	call(t, bare(), "config", "import", configure(t, "all.yaml", "singleServerConfig:\n  address: redis://h:6379\nnameMapper: !<com.example.Mapper> {}\n"), "--to", "-").
		want(t, 0, "set prefix in holdfast.yaml")
	if got := call(t, bare(), "config", "import", file, "--to", "-"); !strings.Contains(got.stdout, "password: ${SECRET}") {
		t.Errorf("got %q", got.stdout)
	}
	call(t, bare(), "config", "import").want(t, output.ExitUsage, "one file")
	call(t, bare(), "config", "import", "no-such-file").want(t, output.ExitUsage, "no-such-file")
	call(t, bare(), "config", "chek").want(t, output.ExitUsage, `did you mean "check"?`)
	call(t, bare(), "lock", "job").want(t, output.ExitUsage, `did you mean "run"?`)
	call(t, bare(), "unlock", "job").want(t, output.ExitUsage, `did you mean "force-unlock"?`)
}
